"""The run's state machine: which moves there are, each made with a reason that people read."""

from collections.abc import Container

from sqlmodel import Session

from data.records import unreadable_columns
from data.tables import Run, now

ACTIVE = frozenset({"starting", "running", "paused"})
ENDED = frozenset({"finished", "failed", "stopped"})

MOVES: dict[str, frozenset[str]] = {
    "starting": frozenset({"running", "paused", "failed", "stopped"}),
    "running": frozenset({"paused", "finished", "failed", "stopped"}),
    "paused": frozenset({"running", "failed", "stopped"}),
    "finished": frozenset({"running"}),  # extended
    "failed": frozenset({"running"}),  # resumed
    "stopped": frozenset({"running"}),  # resumed or extended
}


class MoveRefused(Exception):
    """A run was asked to make a move that its state does not allow."""


def move(session: Session, run: Run, state: str, reason: str | None) -> None:
    """Move `run` to `state`; MoveRefused names both states. Moving to the same state is refused."""
    if state not in MOVES[run.state]:
        raise MoveRefused(f"run {run.id} is {run.state} and cannot become {state}")
    run.state, run.reason, run.updated_at = state, reason, now()
    run.ended_at = run.updated_at if state in ENDED else None
    session.add(run)


def unreadable(run: Run, domains: Container[str]) -> str | None:
    """Why the stored record of a run cannot be read here, and what to do; None when it can.

    Such a run is shown as `unreadable`, which is never stored, and is left as it is.
    """
    if run.state not in MOVES:
        why, mend = f"its state {run.state!r} is unknown", "update Pawl, or restore a backup"
    elif columns := unreadable_columns(run):
        why, mend = f"its {' and '.join(columns)} cannot be read", "restore a backup"
    elif run.domain not in domains:
        why, mend = f"its domain {run.domain!r} is not here", "put that recipe back"
    else:
        return None
    return f"the stored record is unreadable: {why}; {mend}"
