"""The canonical dump: everything about a run that a crash may not change, in an order of its own."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlalchemy import text as sql
from sqlmodel import Session, SQLModel, col, select

from data.files import verify_manifest
from data.home import Home
from data.store import Reader
from data.tables import (
    Account,
    Audit,
    Checkpoint,
    Control,
    Directive,
    Draw,
    Evaluation,
    Event,
    Harness,
    Job,
    Lease,
    LedgerEntry,
    Live,
    ModelCall,
    Reservation,
    Round,
    Run,
    Sample,
    Server,
    Steer,
    Step,
    Task,
    TrainingRow,
    TrainPoint,
    Version,
)

DUMPED: dict[type[SQLModel], tuple[str, ...]] = {
    Run: ("state", "reason", "round", "rounds_target", "best_version", "limits"),
    Round: (
        *("number", "start_version", "plan", "hypothesis", "candidate", "rows", "outcome"),
        *("decision", "reason", "evidence"),
    ),
    Harness: ("id", "spec"),
    Version: ("name", "role", "round", "adapter", "version_hash", "trained_rows"),
    Checkpoint: ("id", "round", "job", "size_bytes", "training"),
    Task: ("id", "split", "family", "number", "round", "prompt", "stratum"),
    Draw: ("split", "family", "next_index"),
    Evaluation: (
        *("id", "round", "version", "suite", "split", "repeat", "protocol_hash", "planned"),
        *("scored", "mean", "low", "high", "conservative", "families"),
    ),
    Sample: ("evaluation", "task", "attempt", "text", "parsed", "score", "reason", "tokens_out"),
    TrainingRow: ("round", "family", "task", "source", "source_model", "completion", "row_hash"),
    TrainPoint: ("round", "step", "loss"),
    Audit: ("round", "type", "version", "phase", "verdict", "reasons"),
    Job: ("id", "round", "type", "status", "reason"),
    Directive: ("id", "text"),
    Steer: ("id", "status", "reason", "round"),
    Control: ("id", "action", "status", "rounds"),
    Live: ("phase", "role", "text", "done", "total"),
}
# What the money audit says counts device time and calls in flight as well; see `_spend`.
MONEY = re.compile(r"\d+ requests, \$[\d.]+ = ledger")
TAKEN_UP = "run goes on where it was"  # said once more in every life


def dump(home: Home, run: str) -> dict[str, Any]:
    """What must be equal however often the process died; `spend` holds what may tell of deaths.

    Raises AssertionError when something is wrong by itself: money, events, files, the database.
    """
    reader = Reader(home.database)
    try:
        with reader.read() as session:
            found: dict[str, Any] = {
                table.__name__: _rows(session.exec(select(table)), fields)
                for table, fields in DUMPED.items()
            }
            found |= {
                "steps": _steps(session),
                "events": _events(session, run),
                "leases": _leases(session),
                "calls": _calls(session),
                "spend": _spend(session, run),
            }
            _check_database(session)
            found["files"] = _files(home, run, set(session.exec(select(Checkpoint.id))))
    finally:
        reader.close()
    text = MONEY.sub("MONEY = ledger", json.dumps(found).replace(str(home.path), "HOME"))
    plain: dict[str, Any] = json.loads(text)
    return plain


def _rows(rows: Iterable[Any], fields: tuple[str, ...]) -> list[str]:
    """Rows as lines; two lines that are equal are two rows."""
    return sorted(
        json.dumps({name: getattr(row, name) for name in fields}, sort_keys=True) for row in rows
    )


def _steps(session: Session) -> list[list[Any]]:
    """The recorded results, each of the last attempt at its step and of no other."""
    steps = session.exec(select(Step).order_by(col(Step.id))).all()
    last = {(step.round, step.step): step.id or 0 for step in steps}
    done = [step for step in steps if step.status == "done"]
    assert [step.id for step in done] == sorted(last.values()), (
        "a step has no result, or its result is not of the last attempt"
    )
    assert not [step for step in steps if step.status == "intent"], "a step is left half done"
    return [[step.round, step.step, json.dumps(step.result, sort_keys=True)] for step in done]


def _events(session: Session, run: str) -> list[list[str]]:
    """The events in their order, whose numbers have neither gap nor repetition."""
    events = session.exec(select(Event).order_by(col(Event.id))).all()
    numbers = [event.seq for event in events if event.run == run]
    assert numbers == list(range(1, len(events) + 1)), f"gaps or repetitions: {numbers}"
    return [
        [event.kind, event.role, event.text]
        for event in events
        if not event.text.startswith(TAKEN_UP)
    ]


def _leases(session: Session) -> list[list[Any]]:
    """For what the device was held; how often and how long may tell of deaths."""
    leases = session.exec(select(Lease)).all()
    assert {lease.state for lease in leases} <= {"ended"}, "a lease is still held"
    metered = sum(account.device_ms for account in _accounts(session, "run:"))
    assert metered == sum(lease.active_ms for lease in leases), "device time went unmetered"
    return [
        list(place) for place in sorted({(lease.round or 0, lease.purpose) for lease in leases})
    ]


def _calls(session: Session) -> list[str]:
    """The answered calls, each once."""
    calls = session.exec(select(ModelCall)).all()
    assert {call.status for call in calls} <= {"answered", "uncertain"}, "a call is open"
    answered = [call for call in calls if call.status == "answered"]
    named = Counter((call.round, call.step, call.call_key) for call in answered)
    assert not named or max(named.values()) == 1, "a call was answered twice"
    return _rows(answered, ("round", "step", "call_key", "role", "model", "text", "cost", "usage"))


def _spend(session: Session, run: str) -> dict[str, int]:
    """The run's money, after every account was found to be what its entries say."""
    entries = session.exec(select(LedgerEntry)).all()
    reservations = session.exec(select(Reservation)).all()
    assert all(one.state in ("settled", "uncertain") for one in reservations), "money is open"
    for account in session.exec(select(Account)):
        own = [entry for entry in entries if entry.account == account.id]
        _check_account(account, own, reservations)
    account = session.get_one(Account, f"run:{run}")
    uncertain = session.exec(select(ModelCall).where(ModelCall.status == "uncertain")).all()
    return {
        "confirmed": account.model_settled - account.model_uncertain,
        "uncertain": account.model_uncertain,
        "uncertain_calls": len(uncertain),
        "requests": account.requests - len(uncertain),
    }


def _check_account(
    account: Account, entries: list[LedgerEntry], all_: Iterable[Reservation]
) -> None:
    assert (account.model_reserved, account.device_reserved) == (0, 0), "money is reserved"
    model, device = account.model_settled, account.device_settled
    assert account.model_cap is None or model <= account.model_cap, "over the model cap"
    assert account.total_cap is None or model + device <= account.total_cap, "over the total cap"
    closed = [entry for entry in entries if entry.kind != "reserve"]
    for category, settled in (("model", model), ("device", device)):
        entered = sum(entry.amount for entry in closed if entry.category == category)
        assert settled == entered, f"{account.id} says {settled}, its entries {entered}"
    charged = [one.id or 0 for one in all_ if account.id in one.accounts]
    opened = [entry for entry in entries if entry.kind == "reserve"]
    for some in (opened, closed):
        assert sorted(entry.reservation or 0 for entry in some) == sorted(charged), (
            "not entered just once"
        )


def _accounts(session: Session, prefix: str) -> list[Account]:
    return list(session.exec(select(Account).where(col(Account.id).startswith(prefix))))


def _check_database(session: Session) -> None:
    connection = session.connection()
    assert connection.execute(sql("PRAGMA integrity_check")).scalar_one() == "ok", "damaged"
    assert not connection.execute(sql("PRAGMA foreign_key_check")).all(), "a row points at nothing"
    assert all(server.ended_at for server in session.exec(select(Server))), "a server has no end"


def _files(home: Home, run: str, listed: set[str]) -> dict[str, str]:
    """What lies in the run's folder, by content; every listed checkpoint whole, no other there."""
    left = [str(path) for path in home.path.rglob("*.tmp-*")]
    assert not left, f"left behind: {left}"
    assert {folder.name for folder in home.checkpoints.iterdir()} == listed, "not what is listed"
    for name in listed:
        assert verify_manifest(home.checkpoints / name).startswith(name)
    folder = home.path / "runs" / run
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): _content(path) for path in files}


def _content(path: Path) -> str:
    """A hash over the lines in any order; an answer file holds each key once."""
    lines = path.read_text().splitlines()
    if path.parent.name == "answers":
        keys = [json.loads(line)["key"] for line in lines]
        assert len(keys) == len(set(keys)), f"{path} has an answer twice"
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
