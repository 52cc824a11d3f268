"""The step journal: an intent before a step, its result after it, in the same transaction as its rows."""

from typing import Any

from sqlmodel import Session, col, select

from data.tables import Step, now


def result_of(session: Session, run: str, round_: int, step: str) -> dict[str, Any] | None:
    """The recorded result of a step, or None when it has none yet."""
    query = select(Step).where(
        Step.run == run, Step.round == round_, Step.step == step, Step.status == "done"
    )
    found = session.exec(query).first()
    return None if found is None else found.result


def intend(session: Session, run: str, round_: int, step: str, epoch: int) -> int:
    """Record that a step begins (again); returns the id of this attempt."""
    query = (
        select(Step)
        .where(Step.run == run, Step.round == round_, Step.step == step)
        .order_by(col(Step.attempt).desc())
    )
    last = session.exec(query).first()
    if last is not None and last.status == "intent":
        last.status, last.ended_at = "interrupted", now()
        session.add(last)
    attempt = 1 if last is None else last.attempt + 1
    step_row = Step(run=run, round=round_, step=step, attempt=attempt, epoch=epoch)
    session.add(step_row)
    session.flush()
    assert step_row.id is not None
    return step_row.id


def finish(session: Session, step_id: int, result: dict[str, Any], seconds: float) -> None:
    """Record a step's result; from now on it is never done again."""
    _end(session, step_id, "done", seconds).result = result


def fail(session: Session, step_id: int, error: str) -> None:
    """Record that an attempt at a step failed, and how."""
    _end(session, step_id, "failed", 0.0).error = error


def interrupt(session: Session, step_id: int) -> None:
    """Record that an attempt was cut short on purpose; the next start goes on."""
    _end(session, step_id, "interrupted", 0.0)


def _end(session: Session, step_id: int, status: str, seconds: float) -> Step:
    step = session.get_one(Step, step_id)
    step.status, step.ended_at, step.device_seconds = status, now(), seconds
    session.add(step)
    return step
