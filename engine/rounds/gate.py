"""Gate: the round's decision with its reason; a promoted candidate is the next round's start."""

from typing import Any

from sqlmodel import Session, select

from data import events
from data.tables import Round, Run, now
from engine.facts import RunFacts, Tools
from engine.gate import Rule, decide
from engine.jobs import close_job
from engine.rounds.blind import unseal
from engine.statistics import alpha_for_gate
from engine.types import as_dict

NAME = "gate"
USES_DEVICE = False


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """Everything the decision rests on, as earlier phases recorded it."""
    ended = next((one for one in past.values() if one.get("ends")), None)
    prepared = past["prepare"]
    return {
        "ended": ended and {"decision": ended["ends"], "reason": ended["reason"]},
        "blind": past.get("blind"),
        "audits": past.get("audit", {}).get("audits", []),
        "candidate": past.get("train", {}).get("candidate"),
        "dev": past.get("develop", {}).get("paired"),
        "against_base": past.get("develop", {}).get("against_base"),
        "gates": _gates_before(session, run.id, round_),
        "noise": prepared["noise"] or 0.0,
    }


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Decide. A dry run is never evaluated; a round that ended early keeps that decision."""
    if run.dry:
        return {"decision": "not_evaluated", "reason": "dry run: nothing was trained"}
    if work["ended"]:
        return dict(work["ended"])
    rule = Rule(
        alpha=alpha_for_gate(work["gates"] + 1),
        min_gain=run.config.min_gain,
        noise=work["noise"],
        tolerance=run.config.guard_tolerance,
    )
    blind = work["blind"]
    elsewhere = {name: blind[name] for name in ("held_out", "guard") if blind[name]["asked"]}
    decision, reason, checks = decide(blind["blind"], elsewhere, work["audits"], rule)
    return {
        "decision": decision,
        "reason": reason,
        "checks": [as_dict(check) for check in checks],
        "rule": as_dict(rule),
    }


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write decision and evidence, move the best version, end the round."""
    query = select(Round).where(Round.run == run.id, Round.number == round_)
    row = session.exec(query).one()
    row.outcome, row.ended_at = "completed", now()
    row.decision, row.reason = result["decision"], result["reason"]
    row.evidence = {
        "blind": work["blind"],
        "checks": result.get("checks", []),
        "rule": result.get("rule"),
        "dev": work["dev"],
        "against_base": work["against_base"],
        "candidate": work["candidate"],
        "best": row.start_version,
    }
    session.add(row)
    session.flush()
    close_job(session, row)
    if work["blind"]:
        unseal(session, run, round_, work["blind"])
    if result["decision"] == "promote":
        owner = session.get_one(Run, run.id)
        owner.best_version = work["candidate"]
        session.add(owner)
    text = f"round {round_}: {result['decision'].replace('_', ' ')}, {result['reason']}"
    events.append(session, run.id, "round", text)
    decision = result["decision"]
    return {
        "decision": decision,
        "reason": result["reason"],
        "text": decision.replace("_", " "),
    }


def _gates_before(session: Session, run: str, round_: int) -> int:
    """How many gates of this run compared a candidate on blind tasks before this round."""
    rows = session.exec(select(Round).where(Round.run == run, Round.number < round_))
    return sum(1 for row in rows if row.evidence.get("rule"))
