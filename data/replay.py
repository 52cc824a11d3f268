"""Plays a cassette into an empty database: its rows in the order and spacing of their times."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlalchemy import inspect
from sqlmodel import Session, SQLModel

from data.cassette import Cassette, Rows
from data.store import Store
from data.tables import Account, Live, Run
from data.tracks import TRACKS, moment

BEAT_SECONDS = 0.2
AT_ONCE = 2000  # rows in one write
LONGEST_PAUSE = 600.0  # seconds: a run that rested for longer is played as if for this long


@dataclass(kw_only=True, slots=True, frozen=True)
class Frame:
    """A row as it stood from a moment on, `second` seconds after the run was started."""

    second: float
    table: type[SQLModel]
    row: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """Which row this is."""
        columns = inspect(self.table).primary_key
        return (self.table, *(self.row.get(column.key) for column in columns))


def frames(cassette: Cassette, label: dict[str, Any]) -> list[Frame]:
    """Everything that happened, first to last; `label` goes into the run's own record."""
    rows = cassette.rows
    clock = _Clock(rows)
    found = list(_all_frames(rows, clock, label))
    order = {track.table: number for number, track in enumerate(TRACKS.values())}
    found.sort(key=lambda one: (one.second, order.get(one.table, len(order))))
    return _without_pauses(found)


def play(
    store: Store, played: list[Frame], speed: float, stop: threading.Event | None = None
) -> None:
    """Write every frame when its time has come, `speed` times as fast as it was; ends after `stop`."""
    stop = stop or threading.Event()
    began, next_ = time.monotonic(), 0
    while next_ < len(played) and not stop.is_set():
        reached = (time.monotonic() - began) * speed
        due = next_
        while due < len(played) and due - next_ < AT_ONCE and played[due].second <= reached:
            due += 1
        if due > next_:
            store.write(_writes(played[next_:due]))
            next_ = due
        else:
            stop.wait(BEAT_SECONDS)


def _writes(some: list[Frame]) -> Callable[[Session], None]:
    """Write each row of these frames as the last of them has it."""
    newest = {frame.key: frame for frame in some}

    def write(session: Session) -> None:
        for frame in newest.values():
            session.merge(frame.table(**frame.row))
            session.flush()

    return write


class _Clock:
    """Seconds since the run was started; what has no time, or a time before that, is at its start."""

    def __init__(self, rows: Rows) -> None:
        self._start = moment(rows["run"][0]["created_at"]) or 0.0
        ends = [moment(row.get("ended_at")) for row in rows["run"]]
        last = [moment(row["at"]) for row in rows["event"]]
        self.end = max([self.of(None), *(m - self._start for m in (*ends, *last) if m)])

    def of(self, text: str | None) -> float:
        """When that was."""
        when = moment(text)
        return 0.0 if when is None else max(0.0, when - self._start)

    def until(self, text: str | None) -> float:
        """When that was; the end of the run for what was never done."""
        return self.end if moment(text) is None else min(self.end, self.of(text))


def _all_frames(rows: Rows, clock: _Clock, label: dict[str, Any]) -> Iterator[Frame]:
    yield from _run_frames(rows, clock, label)
    yield from _account_frames(rows, clock)
    yield from _live_frames(rows, clock)
    times = _Belonging(rows, clock)
    for name, track in TRACKS.items():
        if name in ("run", "account"):
            continue
        for row in rows[name]:
            at = times.of(name, row) if track.at is None else clock.of(row[track.at])
            at = min(at, clock.end)
            if track.done is None:
                yield Frame(second=at, table=track.table, row=row)
                continue
            done = max(at, clock.until(row[track.done]))
            yield Frame(second=at, table=track.table, row=track.before(row))
            yield Frame(second=done, table=track.table, row=row)


class _Belonging:
    """When a row without a time of its own appeared: with what it belongs to."""

    def __init__(self, rows: Rows, clock: _Clock) -> None:
        self._clock = clock
        self._evaluated = {one["id"]: clock.of(one["created_at"]) for one in rows["evaluation"]}
        self._steps = {(one["round"], one["step"]): one for one in rows["step"]}
        self._rounds = {one["number"]: clock.until(one["ended_at"]) for one in rows["round"]}

    def of(self, name: str, row: dict[str, Any]) -> float:
        if name == "sample":
            return self._evaluated.get(row["evaluation"], self._clock.end)
        if name == "trainingrow":
            return self._ended(row["round"], "admit")
        if name == "trainpoint":
            begun = self._steps.get((row["round"], "train"))
            at = self._clock.of(begun["started_at"]) if begun else self._round(row["round"])
            return at + max(0.0, float(row["seconds"]))
        if name == "task":
            return self._round(row["round"]) if row["round"] else self._ended(0, "prepare")
        return 0.0

    def _ended(self, round_: int, step: str) -> float:
        found = self._steps.get((round_, step))
        return self._clock.until(found["ended_at"]) if found else self._round(round_)

    def _round(self, number: int) -> float:
        return self._rounds.get(number, 0.0 if number == 0 else self._clock.end)


def _run_frames(rows: Rows, clock: _Clock, label: dict[str, Any]) -> Iterator[Frame]:
    """The run as it was started, then as each round moved it, then as it ended."""
    whole = rows["run"][0]
    whole = whole | {"config": whole["config"] | {"replay": label}}
    now = whole | {"state": "starting", "reason": None, "round": 0, "best_version": None}
    now |= {"ended_at": None, "updated_at": whole["created_at"]}
    yield Frame(second=0.0, table=Run, row=now)
    moves: list[tuple[str, dict[str, Any]]] = [
        (row["at"], {"state": "running"}) for row in rows["event"][:1]
    ]
    for version in rows["version"]:
        if version["role"] == "baseline" and whole["best_version"]:
            moves.append((version["created_at"], {"best_version": version["name"]}))
    for round_ in rows["round"]:
        moves.append((round_["started_at"], {"round": round_["number"]}))
        if round_["decision"] == "promote" and round_["ended_at"]:
            moves.append((round_["ended_at"], {"best_version": round_["candidate"]}))
    for at, change in sorted(moves, key=lambda move: clock.of(move[0])):
        now = now | change | {"updated_at": at}
        yield Frame(second=min(clock.of(at), clock.end), table=Run, row=now)
    yield Frame(second=clock.end, table=Run, row=whole)


def _account_frames(rows: Rows, clock: _Clock) -> Iterator[Frame]:
    """The run's account as each entry of the ledger left it."""
    for whole in rows["account"]:
        totals = ("settled", "reserved")
        zero = {f"{kind}_{one}": 0 for kind in ("model", "device") for one in totals}
        now = whole | zero | {"model_uncertain": 0, "requests": 0, "device_ms": 0}
        amounts = {row["id"]: row["amount"] for row in rows["reservation"]}
        yield Frame(second=0.0, table=Account, row=now)
        for entry in rows["ledgerentry"]:
            now = _entered(now, entry, amounts.get(entry["reservation"], 0))
            at = min(clock.of(entry["at"]), clock.end)
            yield Frame(second=at, table=Account, row=now)
        yield Frame(second=clock.end, table=Account, row=whole)


def _entered(account: dict[str, Any], entry: dict[str, Any], reserved: int) -> dict[str, Any]:
    model = entry["category"] == "model"
    category = "model" if model else "device"
    now = dict(account)
    if entry["kind"] == "reserve":
        now[f"{category}_reserved"] += entry["amount"]
        now["requests"] += int(model)
        return now
    now[f"{category}_reserved"] -= reserved
    now[f"{category}_settled"] += entry["amount"]
    now["model_uncertain"] += entry["amount"] if model and entry["kind"] == "uncertain" else 0
    return now


def _live_frames(rows: Rows, clock: _Clock) -> Iterator[Frame]:
    """What the run does now: the phase whose step has begun and not ended."""
    whole = rows["run"][0]
    rest = {"run": whole["id"], "round": whole["round"], "phase": None, "role": None, "tool": None}
    for step in rows["step"]:
        begun, ended = step["started_at"], step["ended_at"] or step["started_at"]
        row = rest | {"round": step["round"], "phase": step["step"], "role": "engine"}
        row |= {"tool": step["step"], "started_at": begun, "updated_at": begun}
        at = min(clock.of(begun), clock.end)
        yield Frame(second=at, table=Live, row=row)
        row = rest | {"round": step["round"], "started_at": begun, "updated_at": ended}
        yield Frame(second=max(at, clock.until(step["ended_at"])), table=Live, row=row)
    yield Frame(second=clock.end, table=Live, row=rest | {"updated_at": whole["updated_at"]})


def _without_pauses(found: list[Frame]) -> list[Frame]:
    """The frames closer together where nothing happened for long."""
    late, near = 0.0, []
    for before, frame in pairwise([found[0], *found]):
        late += max(0.0, frame.second - before.second - LONGEST_PAUSE)
        near.append(Frame(second=frame.second - late, table=frame.table, row=frame.row))
    return near
