"""Data audit: the checks that are due between admission and training."""

from typing import Any

from sqlmodel import Session

from engine.facts import RunFacts
from engine.rounds import audit
from engine.rounds.audit import execute, record

__all__ = ["NAME", "USES_DEVICE", "execute", "prepare", "record"]

NAME = "data_audit"
USES_DEVICE = False


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """The audits that look at rows alone."""
    return audit.prepare(session, run, round_, past) | {"after": audit.BEFORE_TRAINING}
