"""A server in a process of its own that the crash tests kill and start again.

`python -m tests.crash_child HOME RUN [dry]` starts the run if it is new, waits for its end, and
prints the canonical dump.
"""

import json
import sys
from pathlib import Path
from typing import Any

from sqlmodel import SQLModel, select

from app.errors import Conflict
from data.tables import (
    Account,
    Audit,
    Checkpoint,
    Evaluation,
    Event,
    Job,
    ModelCall,
    Reservation,
    Round,
    Run,
    Sample,
    Step,
    Task,
    TrainingRow,
    Version,
)
from tests.instance import Instance, instance

# What must be equal however often the process died on the way.
DUMPED: dict[type[SQLModel], tuple[str, ...]] = {
    Run: ("state", "reason", "round", "best_version"),
    Round: ("number", "start_version", "hypothesis", "candidate", "rows", "decision", "reason"),
    Version: ("name", "adapter", "version_hash", "trained_rows"),
    Checkpoint: ("id", "round"),
    Task: ("id", "split", "family", "number", "round"),
    Evaluation: ("round", "version", "split", "repeat", "protocol_hash", "planned", "mean"),
    Sample: ("task", "attempt", "text", "score", "reason"),
    TrainingRow: ("round", "task", "source", "row_hash"),
    Audit: ("round", "type", "verdict"),
    Job: ("round", "status", "reason"),
}


def dump(pawl: Instance, run: str) -> dict[str, Any]:
    """Everything about a run that a crash may not change, in an order of its own."""
    with pawl.store.read() as session:
        found = {
            table.__name__: sorted(
                [str(getattr(row, name)) for name in fields] for row in session.exec(select(table))
            )
            for table, fields in DUMPED.items()
        }
        account = session.get_one(Account, f"run:{run}")
        calls = session.exec(select(ModelCall)).all()
        uncertain = [call for call in calls if call.status == "uncertain"]
        found["spend"] = {
            "confirmed": account.model_settled - account.model_uncertain,
            "uncertain_calls": len(uncertain),
            "answered_calls": sum(1 for call in calls if call.status == "answered"),
            "open": sum(1 for r in session.exec(select(Reservation)) if r.state == "open"),
            "reserved": account.model_reserved + account.device_reserved,
        }
        done = [(s.round, s.step) for s in session.exec(select(Step)) if s.status == "done"]
        found["steps"] = sorted(done)
        seqs = sorted(event.seq for event in session.exec(select(Event)))
        found["events_without_gap"] = seqs == list(range(1, len(seqs) + 1))
    return found


def main(home: str, run: str, kind: str = "live") -> None:
    """Carry the run to its end, whatever state it is found in."""
    fields: dict[str, Any] = {"rounds": 2}
    if kind == "dry":
        fields |= {
            "dry_run": True,
            "operator_model": "sim/operator",
            "teacher_model": "sim/teacher",
        }
    with instance(Path(home)) as pawl:
        try:
            pawl.start(run, **fields)
        except Conflict:
            pass
        pawl.engine.start()
        pawl.wait(run, seconds=90)
        print(json.dumps(dump(pawl, run)))


if __name__ == "__main__":
    main(*sys.argv[1:])
