"""Which rows of a run a cassette has, when each appeared, and what was known of it only later."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlmodel import SQLModel

from data.tables import (
    Account,
    Audit,
    Checkpoint,
    Control,
    Directive,
    Evaluation,
    Event,
    Harness,
    Job,
    Lease,
    LedgerEntry,
    ModelCall,
    Reservation,
    Round,
    Run,
    Sample,
    Steer,
    Step,
    Task,
    TrainingRow,
    TrainPoint,
    Version,
)


@dataclass(kw_only=True, slots=True, frozen=True)
class Track:
    """One table: `at` is the time column of a row's appearance, `done` the one of its completion.

    `then` has what the row said before it was done, where that is not the column's default.
    Without `at` a row appears with what it belongs to (see data/replay.py).
    """

    table: type[SQLModel]
    at: str | None = None
    done: str | None = None
    later: tuple[str, ...] = ()
    then: Mapping[str, Any] = field(default_factory=dict)

    def before(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row as it was before it was done."""
        fields = self.table.model_fields
        blank = {name: fields[name].get_default(call_default_factory=True) for name in self.later}
        return {**row, **blank, **self.then}


# Those that others refer to come first.
TRACKS: dict[str, Track] = {
    "run": Track(table=Run),
    "harness": Track(table=Harness),
    "account": Track(table=Account),
    "directive": Track(table=Directive, at="created_at"),
    "steer": Track(
        table=Steer,
        at="created_at",
        done="delivered_at",
        later=("status", "reason", "round", "delivered_at"),
    ),
    "control": Track(
        table=Control, at="created_at", done="done_at", later=("status", "done_at", "after_round")
    ),
    "round": Track(
        table=Round,
        at="started_at",
        done="ended_at",
        later=("plan", "hypothesis", "rows", "candidate", "outcome", "decision", "reason")
        + ("evidence", "ended_at"),
    ),
    "job": Track(
        table=Job,
        at="created_at",
        done="finished_at",
        later=("status", "reason", "result", "finished_at"),
        then={"status": "running"},
    ),
    "step": Track(
        table=Step,
        at="started_at",
        done="ended_at",
        later=("status", "result", "error", "device_seconds", "ended_at"),
    ),
    "version": Track(table=Version, at="created_at"),
    "checkpoint": Track(table=Checkpoint, at="created_at"),
    "task": Track(table=Task),
    "evaluation": Track(table=Evaluation, at="created_at"),
    "sample": Track(table=Sample),
    "trainingrow": Track(table=TrainingRow),
    "audit": Track(table=Audit, at="created_at"),
    "trainpoint": Track(table=TrainPoint),
    "reservation": Track(
        table=Reservation,
        at="created_at",
        done="settled_at",
        later=("actual", "state", "note", "settled_at"),
    ),
    "ledgerentry": Track(table=LedgerEntry, at="at"),
    "modelcall": Track(
        table=ModelCall,
        at="started_at",
        done="ended_at",
        later=("status", "usage", "cost", "uncertain", "error", "ended_at"),
    ),
    "lease": Track(
        table=Lease,
        at="started_at",
        done="ended_at",
        later=("active_ms", "state", "ended_at"),
    ),
    "event": Track(table=Event, at="at"),
}


def moment(text: str | None) -> float | None:
    """Seconds since 1970 of a time as the tables write it; None for no time, or something else."""
    try:
        found = datetime.fromisoformat(text) if text else None
        return None if found is None or found.tzinfo is None else found.timestamp()
    except (ValueError, OverflowError):
        return None
