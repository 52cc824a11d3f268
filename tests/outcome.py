"""What a run came to, to be compared with another one's: not how often it rested on the way."""

from typing import Any

from sqlmodel import select

from data.tables import Account, Control, Live, ModelCall, Reservation, Step, TrainPoint
from tests.crash_dump import DUMPED
from tests.instance import Instance

# Who asked for what, and progress that may be lost with a full disk.
ON_THE_WAY = {Control, Live, TrainPoint}


def outcome(pawl: Instance) -> dict[str, Any]:
    """Decisions, scores, rows and steps of the one run there is, each step recorded once."""
    home = str(pawl.home.path)
    with pawl.store.read() as session:
        found: dict[str, Any] = {
            table.__name__: sorted(
                [str(getattr(row, name)).replace(home, "home") for name in fields]
                for row in session.exec(select(table))
            )
            for table, fields in DUMPED.items()
            if table not in ON_THE_WAY
        }
        steps = session.exec(select(Step)).all()
    assert not [step for step in steps if step.status == "intent"]
    found["steps"] = sorted([s.round, s.step] for s in steps if s.status == "done")
    return found


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[Any]:
    """What is in one outcome and not in the other: the first difference of every table."""
    pairs = ((name, one[name], other[name]) for name in one)
    return [
        (name, next(((a, b) for a, b in zip(mine, theirs, strict=False) if a != b), None))
        for name, mine, theirs in pairs
        if mine != theirs
    ]


def money(pawl: Instance) -> dict[str, int]:
    """What is reserved, and how many calls were answered or are uncertain."""
    with pawl.store.read() as session:
        accounts = session.exec(select(Account)).all()
        calls = [call.status for call in session.exec(select(ModelCall))]
        states = [one.state for one in session.exec(select(Reservation))]
    return {
        "reserved": sum(one.model_reserved + one.device_reserved for one in accounts),
        "open": states.count("open"),
        "answered": calls.count("answered"),
        "sent": calls.count("sent"),
    }
