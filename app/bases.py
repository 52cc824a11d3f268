"""Who still needs a base model: asked before its files are removed."""

from collections.abc import Callable
from typing import Any

from sqlmodel import Session, col, select

from app.errors import Conflict
from data.lifecycle import ENDED
from data.store import Store
from data.tables import Checkpoint, Job, Run

JOB_ENDED = ("completed", "failed", "cancelled", "stopped")


def commands(store: Store) -> dict[str, Callable[..., Any]]:
    """The administration commands around base models; their files are the command line's."""

    def check_removal(name: str) -> int:
        with store.read() as session:
            return adapters_of(session, name)

    return {"base.check_removal": check_removal}


def adapters_of(session: Session, name: str) -> int:
    """How many adapters would be of no use without this base; Conflict while work needs it."""
    for run in session.exec(select(Run).where(col(Run.state).not_in(ENDED))):
        if run.base_model == name:
            raise Conflict(f"run {run.id} uses {name}: stop it first")
    for job in session.exec(select(Job).where(col(Job.status).not_in(JOB_ENDED))):
        if name in _named(job):
            raise Conflict(f"job {job.id} uses {name}: end it first")
    query = select(Checkpoint).where(
        Checkpoint.base_model == name, col(Checkpoint.deleted_at).is_(None)
    )
    return len(list(session.exec(query)))


def _named(job: Job) -> set[str]:
    """The base models that a job's request speaks of."""
    spec = job.spec or {}
    words = [spec.get("base_model"), spec.get("model"), spec.get("version")]
    return {word.removesuffix("/base") for word in words if isinstance(word, str)}
