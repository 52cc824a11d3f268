"""The run's state machine: which moves there are, each made with a reason that people read."""

from sqlmodel import Session

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
