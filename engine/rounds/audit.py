"""Audit: independent checks of rows, scores and spend; one that errors is not an approval."""

import traceback
from typing import Any

from sqlmodel import Session

from data import events
from data.tables import Audit
from engine.audits import AUDITS
from engine.audits.finding import Finding
from engine.facts import Library, RunFacts, Tools

NAME = "audit"
USES_DEVICE = False
BEFORE_TRAINING = "admit"
BEFORE_GATE = "blind"


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """What each audit needs is in the database; they read it in `execute`."""
    return {"after": BEFORE_GATE, "past": past, "round": round_}


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Run every audit that is due at this point."""
    with tools.store.read() as session:
        found = {
            name: _examine(name, session, run, tools.library, work)
            for name, audit in AUDITS.items()
            if work["after"] in audit.AFTER
        }
    return {
        name: {"verdict": finding.verdict, "reasons": list(finding.reasons)}
        for name, finding in found.items()
    }


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write the verdicts; a rejection before training ends the round."""
    version = work["past"].get("train", {}).get("candidate")
    audits = []
    for name, found in result.items():
        _write(session, run, round_, version, work["after"], name, found)
        audits.append({"type": name, "verdict": found["verdict"], "text": found["reasons"][0][1]})
    bad = [one for one in audits if one["verdict"] not in ("approved", "not_applicable")]
    summary: dict[str, Any] = {
        "audits": audits,
        "text": f"{len(audits) - len(bad)} of {len(audits)} audits approved",
    }
    if bad and work["after"] == BEFORE_TRAINING:
        summary |= {"ends": "reject", "reason": f"{bad[0]['type']}: {bad[0]['text']}"}
    return summary


def _examine(
    name: str, session: Session, run: RunFacts, library: Library, work: dict[str, Any]
) -> Finding:
    try:
        found: Finding = AUDITS[name].examine(session, run, library, work["round"], work["past"])
        return found
    except Exception as error:  # noqa: BLE001  an audit that breaks blocks the gate alone
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
        return Finding(verdict="error", reasons=(("ERROR", text),))


def _write(
    session: Session,
    run: RunFacts,
    round_: int,
    version: str | None,
    phase: str,
    name: str,
    found: dict[str, Any],
) -> None:
    reasons = [{"code": code, "text": text} for code, text in found["reasons"]]
    session.add(
        Audit(
            project_id=run.project_id,
            run=run.id,
            round=round_,
            type=name,
            version=version,
            phase=phase,
            verdict=found["verdict"],
            reasons=reasons,
        )
    )
    text = f"{name} {found['verdict']}: {reasons[0]['text']}"
    events.append(session, run.id, "tool_result", text, role="auditor", tool="audit")
