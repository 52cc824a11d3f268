"""Plan: one hypothesis for the round, from the failures that diagnose measured."""

import json
from typing import Any

from sqlmodel import Session, col, select

from data import crash, events
from data.tables import INSERTED, Directive, Round, Steer, now
from engine.draws import used_keys
from engine.errors import GatewayFailed
from engine.facts import RunFacts, Tools
from engine.planner import BUILT_IN, make_plan
from engine.splits import room_for

NAME = "plan"
USES_DEVICE = False
OPERATOR_TOKENS = 1200


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """Gather failures, room left, earlier decisions, standing directives and queued steers."""
    strata = past["diagnose"]["strata"]
    settings = {
        "replay_share": run.config.replay_share,
        "start": run.config.train_from,
        "learning_rate": run.config.lora.learning_rate,
        "epochs": run.config.lora.epochs,
    }
    rooms = {family.id: _room(session, run, family) for family in run.config.families}
    labels = {family.id: family.label for family in run.config.families}
    return {
        "strata": strata,
        "tasks": run.config.limits.collect_tasks,
        "rooms": rooms,
        "labels": labels,
        "settings": settings,
        "directives": _directives(session, run.id),
        "steers": _queued_steers(session, run.id),
        "earlier": _earlier(session, run.id, round_),
    }


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Ask the operator when the run has one, else plan by rule; a bad answer falls back to rule."""
    built_in = make_plan(
        work["strata"], work["tasks"], work["rooms"], work["labels"], work["settings"]
    )
    if run.config.operator_model is None:
        return built_in
    try:
        return _operator_plan(work, run, tools, built_in)
    except (GatewayFailed, ValueError, KeyError) as error:
        tools.event("error", f"operator plan refused: {error}; the built-in planner takes over")
        return built_in | {"note": f"operator plan refused: {error}"}


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write the plan into the round and mark the steers that it took up."""
    query = select(Round).where(Round.run == run.id, Round.number == round_)
    row = session.exec(query).one()
    read = result["planner"] != BUILT_IN
    for said in work["steers"]:
        _answer_steer(session, run.id, session.get_one(Steer, said["id"]), round_, read)
    heard = {name: work[name] if read else [] for name in ("steers", "directives")}
    row.plan, row.hypothesis = result | heard, result["hypothesis"]
    session.add(row)
    planned = sum(family["tasks"] for family in result["families"].values())
    return {"plan": result, "text": f"{planned} tasks, {result['planner']} planner"}


def _answer_steer(session: Session, run: str, steer: Steer, round_: int, read: bool) -> None:
    """Delivered to the plan of this round, or dropped because its planner reads no text."""
    steer.status = "delivered" if read else "dropped"
    steer.reason = None if read else "the built-in planner reads no text: name an operator model"
    steer.round, steer.delivered_at = round_, now() if read else None
    session.add(steer)
    text = f"{steer.id} delivered to the plan" if read else f"{steer.id} dropped: {steer.reason}"
    events.append(session, run, "steer", text, role="operator")
    crash.point("in_steer")


def _operator_plan(
    work: dict[str, Any], run: RunFacts, tools: Tools, built_in: dict[str, Any]
) -> dict[str, Any]:
    """The strong model's plan: the built-in one with its counts and sentence, validated."""
    asked = {name: work[name] for name in ("strata", "tasks", "rooms", "labels", "earlier")}
    said = [text["text"] for text in work["directives"] + work["steers"]]
    content = json.dumps(asked | {"owner_says": said}, sort_keys=True)
    system = (
        "You plan one round of training. Answer with JSON alone:"
        ' {"families": {id: number of tasks}, "hypothesis": one sentence}.'
    )
    messages = [{"role": "system", "content": system}, {"role": "user", "content": content}]
    answer = tools.gateway.ask(
        tools, run.config.operator_model, "operator", "plan", messages, OPERATOR_TOKENS
    )
    reply = json.loads(answer.text or "")
    return built_in | _validated(reply, work, built_in, run.config.operator_model)


def _validated(
    reply: Any, work: dict[str, Any], built_in: dict[str, Any], planner: str | None
) -> dict[str, Any]:
    """The parts of a reply that a plan may have; a ValueError says what does not fit."""
    counts = reply["families"]
    unknown = sorted(set(counts) - set(built_in["families"]))
    if unknown:
        raise ValueError(f"unknown family {unknown[0]}")
    if any(not isinstance(n, int) or n < 0 for n in counts.values()):
        raise ValueError("task counts must be whole numbers")
    if not 0 < sum(counts.values()) <= work["tasks"]:
        raise ValueError(f"the plan needs 1 to {work['tasks']} tasks")
    families = {}
    for family, planned in built_in["families"].items():
        room = work["rooms"][family]
        count = counts.get(family, 0)
        if room is not None and count > room:
            raise ValueError(f"{family} has room for {room} tasks, not {count}")
        families[family] = {"tasks": count, "strata": _scaled(planned["strata"], count)}
    hypothesis = str(reply["hypothesis"])[:500]
    return {"families": families, "hypothesis": hypothesis, "planner": planner}


def _scaled(strata: dict[str, int], total: int) -> dict[str, int]:
    """The same mix of difficulties for another number of tasks."""
    whole = sum(strata.values()) or 1
    scaled = {name: count * total // whole for name, count in strata.items()}
    for name in list(scaled)[: total - sum(scaled.values())]:
        scaled[name] += 1
    return scaled


def _room(session: Session, run: RunFacts, family: Any) -> int | None:
    """How many more tasks this family's train split may give."""
    room = room_for("train", family)
    return None if room is None else room - len(used_keys(session, run.id, "train", family.id))


def _directives(session: Session, run: str) -> list[dict[str, str]]:
    rows = session.exec(select(Directive).where(Directive.run == run).order_by(INSERTED))
    return [{"id": row.id, "text": row.text} for row in rows]


def _queued_steers(session: Session, run: str) -> list[dict[str, str]]:
    query = select(Steer).where(Steer.run == run, Steer.status == "queued")
    rows = session.exec(query.order_by(INSERTED))
    return [{"id": row.id, "text": row.text} for row in rows]


def _earlier(session: Session, run: str, round_: int) -> list[dict[str, Any]]:
    query = select(Round).where(Round.run == run, Round.number < round_)
    rows = session.exec(query.order_by(col(Round.number)))
    return [{"round": row.number, "decision": row.decision, "reason": row.reason} for row in rows]
