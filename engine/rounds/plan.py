"""Plan: one hypothesis for the round, from the failures that diagnose measured."""

from dataclasses import replace
from typing import Any

from sqlmodel import Session, select

from data import crash, events
from data.tables import Round, Steer, now
from engine.config import RunConfig
from engine.draws import used_keys
from engine.facts import RunFacts, Tools
from engine.operator import plan_round
from engine.operator_form import plannable, settings_schema
from engine.operator_view import look
from engine.planner import BUILT_IN, make_plan
from engine.splits import room_for
from engine.types import LoraSettings

NAME = "plan"
USES_DEVICE = False
UNREAD = "the built-in planner reads no text: name an operator model"
REFUSED = "the operator read it, but its plan was refused, and the built-in planner reads no text"


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """Gather failures, room left, earlier decisions, standing directives and queued steers."""
    config = run.config
    return look(session, run.id, round_) | {
        "round": round_,
        "strata": past["diagnose"]["strata"],
        "tasks": config.limits.collect_tasks,
        "rooms": {family.id: _room(session, run, family) for family in config.families},
        "labels": {family.id: family.label for family in config.families},
        "settings": {
            "replay_share": config.replay_share,
            "start": config.train_from,
            "learning_rate": config.lora.learning_rate,
            "epochs": config.lora.epochs,
        },
        "offered": settings_schema(config),
    }


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Ask the operator when the run has one, else plan by rule; a bad answer falls back to rule."""
    settings = work["settings"] | ({"replay_share": 0.0} if run.dry else {})  # nothing is trained
    built_in = make_plan(work["strata"], work["tasks"], work["rooms"], work["labels"], settings) | {
        "followed": []
    }
    operator = run.config.operator_model
    if operator is None or not plannable(work):
        return built_in | {"turns": []}
    return plan_round(work, operator, tools, built_in)


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write the plan into the round, tell the operator's turns, and answer the steers."""
    query = select(Round).where(Round.run == run.id, Round.number == round_)
    row = session.exec(query).one()
    plan = {name: value for name, value in result.items() if name != "turns"}
    _tell_turns(session, run, work, result)
    heard = {name: work[name] if result["turns"] else [] for name in ("steers", "directives")}
    for said in work["steers"]:
        _answer_steer(session, run, session.get_one(Steer, said["id"]), round_, result)
    row.plan, row.hypothesis = plan | heard, plan["hypothesis"]
    session.add(row)
    planned = sum(family["tasks"] for family in plan["families"].values())
    return {"plan": plan, "text": f"{planned} tasks, {plan['planner']} planner"}


def lora_settings(config: RunConfig, plan: dict[str, Any]) -> LoraSettings:
    """The recipe's training with what the plan chose in its place."""
    chosen = plan["settings"]
    return replace(
        config.lora, learning_rate=chosen["learning_rate"], epochs=float(chosen["epochs"])
    )


def _tell_turns(
    session: Session, run: RunFacts, work: dict[str, Any], result: dict[str, Any]
) -> None:
    """The operator's turns as events, each at once with the plan that came of them.

    The result of the last turn is the plan itself, which the phase's own event tells.
    """

    def tell(kind: str, text: str) -> None:
        events.append(session, run.id, kind, text, role="operator", tool=NAME)

    shown = [one for some in work["failures"].values() for one in some]
    read = {"failed answer": shown, "directive": work["directives"], "steer": work["steers"]}
    told = ", ".join(f"{len(some)} {word}{'s'[: len(some) != 1]}" for word, some in read.items())
    for turn, one in enumerate(result["turns"], 1):
        tell("tool_call", f"{run.config.operator_model} plans, turn {turn}: reads {told}")
        if one["said"]:
            tell("message", one["said"])
        if one["refused"]:
            tell("tool_result", f"plan refused: {one['refused']}")
    if result.get("note"):
        tell("error", result["note"])


def _answer_steer(
    session: Session, run: RunFacts, steer: Steer, round_: int, result: dict[str, Any]
) -> None:
    """Delivered once the operator has read it; dropped where nobody reads; else it waits on."""
    planned = result["planner"] != BUILT_IN
    if result["turns"]:
        steer.status, steer.delivered_at = "delivered", now()
        steer.reason = None if planned else REFUSED
    elif run.config.operator_model is None:
        steer.status, steer.reason = "dropped", UNREAD
    else:
        return  # the operator could not be reached
    steer.round = round_
    session.add(steer)
    text = f"{steer.id} {steer.status}" + (f": {steer.reason}" if steer.reason else " to the plan")
    events.append(session, run.id, "steer", text, role="operator")
    crash.point("in_steer")


def _room(session: Session, run: RunFacts, family: Any) -> int | None:
    """How many more tasks this family's train split may give."""
    room = room_for("train", family)
    used = used_keys(session, run.id, "train", family.id)
    return None if room is None else max(0, room - len(used))
