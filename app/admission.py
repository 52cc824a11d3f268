"""How a round's planned tasks became training rows, step by step with what was left out."""

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, col, select

from app import shapes
from data.tables import Evaluation, Round, Step


def admission(session: Session, row: Round) -> shapes.Admission | None:
    """The counts that the round's plan, collection and admission recorded; None before a plan."""
    planned = [family.get("tasks") or 0 for family in (row.plan.get("families") or {}).values()]
    if not planned:
        return None
    admitted = _admitted(session, row)
    left_out = admitted.get("left_out") or {}
    sources = admitted.get("by_source")
    rows, trained = admitted.get("rows"), admitted.get("trained")
    replay = None if sources is None else sources.get("replay", 0)
    return shapes.Admission(
        planned=sum(planned),
        asked=_asked(session, row),
        candidates=admitted.get("candidates"),
        left_out={name: count for name, count in left_out.items() if count},
        new_rows=None if rows is None or replay is None else rows - replay,
        replay_rows=replay,
        earlier_rows=None if rows is None or trained is None else trained - rows,
    )


def _admitted(session: Session, row: Round) -> Mapping[str, Any]:
    query = select(Step.result).where(
        Step.run == row.run,
        Step.round == row.number,
        Step.step == "admit",
        Step.status == "done",
    )
    return session.exec(query).first() or {}


def _asked(session: Session, row: Round) -> int | None:
    """Tasks that the student was asked in the collection."""
    query = select(Evaluation.planned).where(
        Evaluation.run == row.run, Evaluation.round == row.number, Evaluation.split == "train"
    )
    return session.exec(query.order_by(col(Evaluation.id))).first()
