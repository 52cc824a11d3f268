"""How a round's planned tasks became training rows, step by step with what was left out."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, select

from app import shapes
from data.tables import Evaluation, Round, Step


def admissions(
    session: Session, run: str, rows: Sequence[Round]
) -> dict[int, shapes.Admission | None]:
    """For each round the counts of its plan, collection and admission; None before a plan."""
    numbers = [row.number for row in rows]
    admitted, asked = _admitted(session, run, numbers), _asked(session, run, numbers)
    return {
        row.number: _admission(row, admitted.get(row.number) or {}, asked.get(row.number))
        for row in rows
    }


def _admission(
    row: Round, admitted: Mapping[str, Any], asked: int | None
) -> shapes.Admission | None:
    planned = [family.get("tasks") or 0 for family in (row.plan.get("families") or {}).values()]
    if not planned:
        return None
    left_out = admitted.get("left_out") or {}
    sources = admitted.get("by_source")
    rows, trained = admitted.get("rows"), admitted.get("trained")
    replay = None if sources is None else sources.get("replay", 0)
    return shapes.Admission(
        planned=sum(planned),
        asked=asked,
        candidates=admitted.get("candidates"),
        left_out={name: count for name, count in left_out.items() if count},
        new_rows=None if rows is None or replay is None else rows - replay,
        replay_rows=replay,
        earlier_rows=None if rows is None or trained is None else trained - rows,
    )


def _admitted(session: Session, run: str, numbers: list[int]) -> dict[int, Mapping[str, Any]]:
    query = select(Step.round, Step.result).where(
        Step.run == run,
        col(Step.round).in_(numbers),
        Step.step == "admit",
        Step.status == "done",
    )
    return dict(session.exec(query).all())


def _asked(session: Session, run: str, numbers: list[int]) -> dict[int, int]:
    """Tasks that the student was asked in each round's collection: its first evaluation of train."""
    query = select(Evaluation.round, Evaluation.planned).where(
        Evaluation.run == run, col(Evaluation.round).in_(numbers), Evaluation.split == "train"
    )
    return dict(session.exec(query.order_by(col(Evaluation.id).desc())).all())
