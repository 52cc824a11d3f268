"""Durable events a second: the store's feed against one SQLModel commit an event.

Both sides write the same events into a new database with the same PRAGMAs, and end when the last
one is on disk. The other side keeps one session open for all its commits.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from data import events
from data.store import Reader, Store, writer_database
from data.tables import Event
from tests.bench.harness import Goal, Measured, Side, compare, finish, module, options, run

EVENTS, QUICK_EVENTS = 10_000, 2_000
GOAL = Goal(at_least=20.0)
PRAGMAS = ("journal_mode", "synchronous", "foreign_keys")


def main(argv: list[str]) -> int:
    """Compare and print; 0 when the goal is reached."""
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--side", choices=sorted(SIDES), help="measure one side alone")
    args = parser.parse_args(argv)
    count = QUICK_EVENTS if args.quick else EVENTS
    if args.side:
        print(json.dumps(measure(SIDES[args.side], count)))
        return 0
    more = ["--quick"] if args.quick else []
    ratio = compare(
        Side(name="posted to the store", command=module("feed", "--side", "store", *more)),
        Side(name="a commit an event", command=module("feed", "--side", "session", *more)),
        value="per_second",
        unit="events/s",
        goal=GOAL,
        pairs=args.pairs,
        differ=differ,
        again=not args.quick,
    )
    return finish("feed", args, [ratio], events=count)


def feed(count: int) -> Iterator[dict[str, Any]]:
    """Events as a run tells them, of two runs in turn."""
    for number in range(count):
        yield {
            "run": "ab"[number % 2],
            "kind": ("message", "tool_result", "job")[number % 3],
            "role": ("engine", "student")[number % 5 == 0],
            "tool": "train" if number % 3 else None,
            "text": f"step {number} of {count}: loss {3 / (1 + number):.4f}, 32 rows",
        }


def through_the_store(database: Path, count: int) -> tuple[float, list[Any]]:
    """Seconds until every event is on disk, and the PRAGMAs that it was written under."""
    store = Store(database)
    began = time.perf_counter()
    for event in feed(count):
        events.post(store, **event)
    store.write(lambda session: None)  # answered when all that was posted before is on disk
    seconds = time.perf_counter() - began
    pragmas: list[Any] = store.write(pragmas_of)
    store.close()
    return seconds, pragmas


def commit_by_commit(database: Path, count: int) -> tuple[float, list[Any]]:
    """The same with SQLModel alone: one session, a commit an event."""
    Store(database).close()  # makes the tables
    db = writer_database(database)
    last = {"a": 0, "b": 0}
    with Session(db) as session:
        began = time.perf_counter()
        for event in feed(count):
            last[event["run"]] += 1
            session.add(Event(seq=last[event["run"]], **event))
            session.commit()
        seconds = time.perf_counter() - began
        pragmas = pragmas_of(session)
    db.dispose()
    return seconds, pragmas


SIDES: dict[str, Callable[[Path, int], tuple[float, list[Any]]]] = {
    "store": through_the_store,
    "session": commit_by_commit,
}


def measure(side: Callable[[Path, int], tuple[float, list[Any]]], count: int) -> Measured:
    """One side on a new database: its rate, its PRAGMAs, and a hash of the rows that are there."""
    with tempfile.TemporaryDirectory(prefix="pawl-bench-") as folder:
        database = Path(folder) / "pawl.db"
        seconds, pragmas = side(database, count)
        return {
            "per_second": count / seconds,
            "pragmas": pragmas,
            "rows": rows_hash(database),
        }


def pragmas_of(session: Session) -> list[Any]:
    """How this connection writes."""
    connection = session.connection()
    return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS]


def rows_hash(database: Path) -> str:
    """SHA-256 of every event but for its time, in order."""
    reader = Reader(database)
    with reader.read() as session:
        found = session.exec(select(Event).order_by(col(Event.run), col(Event.seq)))
        rows = [[e.run, e.seq, e.kind, e.role, e.tool, e.text] for e in found]
    reader.close()
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def differ(one: Measured, other: Measured) -> str | None:
    """How two results differ, or None."""
    for name in ("rows", "pragmas"):
        if one[name] != other[name]:
            return f"{name} are {one[name]} and {other[name]}"
    return None


if __name__ == "__main__":
    run(main)
