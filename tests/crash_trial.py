"""A trial of the crash tests: lives on one home that die as told, then one that must end equal."""

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

from engine.children import start_child
from engine.models.gateway_student import AT_ONCE

ROOT = Path(__file__).parent.parent
AT_A_TIME = 2
RECOVERY_SECONDS = 10


@dataclass(kw_only=True, slots=True, frozen=True)
class Trial:
    """Which home's run, and where its lives die one after the other: at a point, or in seconds."""

    kind: str
    deaths: tuple[str | float, ...]

    def __str__(self) -> str:
        return f"{self.kind}: {', then '.join(map(str, self.deaths)) or 'no death'}"


class Forge:
    """Processes that fork lives, so that a life need not import anything."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_A_TIME)
        self._processes = [_start() for _ in range(AT_A_TIME)]
        self._idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        self.lives = 0
        self.deaths = 0
        self.cpu_seconds = 0.0

    def life(self, home: Path, kind: str, death: str | float | None = None) -> dict[str, Any]:
        """One life on `home`: its exit code, what it found, what it left running."""
        after = death if isinstance(death, float) else None
        asked = {
            "home": str(home),
            "kind": kind,
            "crash_at": death if isinstance(death, str) else "",
            "kill_after": after,
        }
        process = self._idle.get()
        try:
            assert process.stdin and process.stdout
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            told: dict[str, Any] = json.loads(process.stdout.readline())
        finally:
            self._idle.put(process)
        self.lives += 1
        self.deaths += told["code"] == -9
        self.cpu_seconds += told["cpu"]
        assert told["left"] == [], f"a life of {death} left processes: {told['left']}"
        return told

    def map(self, call: Any, cases: Sequence[Any]) -> list[Any]:
        """`call` of every case, two at a time; failures are given back, not raised."""

        def tried(case: Any) -> Any:
            try:
                return call(case)
            except AssertionError as error:
                return error

        return list(self._pool.map(tried, cases))

    def close(self) -> None:
        """End the forking processes, which have no work any more."""
        for process in self._processes:
            process.communicate()
            assert process.returncode == 0
        self._pool.shutdown()


def _start() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash_child"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def check(
    forge: Forge,
    home: Path,
    trial: Trial,
    golden: dict[str, Any],
    after_first: Callable[[Path], object] = lambda home: None,
) -> None:
    """Let the lives die, and the last one end; AssertionError when anything tells of the deaths."""
    remains = []
    for death in trial.deaths:
        remains.append(_die(forge, home, trial, death))
        if len(remains) == 1:
            after_first(home)
    last = forge.life(home, trial.kind)
    assert last["code"] == 0, f"{trial}: {last['complaint']}"
    try:
        compare(home, last["found"], remains, golden)
    except AssertionError as error:
        raise AssertionError(f"{trial}: {error}") from error


def check_at_random(
    forge: Forge, home: Path, kind: str, random: Random, golden: dict[str, Any]
) -> int:
    """Kill life after life within a golden one's time, until one ends equal; how many were killed."""
    seconds = golden["seconds"]
    remains: list[Remains] = []
    while (told := forge.life(home, kind, random.uniform(0.0, seconds)))["code"] == -9:
        remains.append(Remains(home))
    name = f"{kind} {home.name} after {len(remains)} deaths"
    assert told["code"] == 0, f"{name}: {told['complaint']}"
    try:
        compare(home, told["found"], remains, golden)
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}") from error
    return len(remains)


def _die(forge: Forge, home: Path, trial: Trial, death: str | float) -> "Remains":
    died = forge.life(home, trial.kind, death)
    assert died["code"] == -9, f"{trial}: {death} never came: {died['complaint']}"
    return Remains(home)


def compare(
    home: Path, found: dict[str, Any], remains: "Sequence[Remains]", golden: dict[str, Any]
) -> None:
    """A run's end equals the golden one, but for the calls that were in flight at a death."""
    assert found["taken_up"] < RECOVERY_SECONDS, f"taken up after {found['taken_up']} s"
    here, there = dict(found["dump"]), dict(golden["dump"])
    differ = [name for name in there if name != "spend" and here[name] != there[name]]
    assert not differ, _difference(differ[0], here[differ[0]], there[differ[0]])
    in_flight = {call: amount for one in remains for call, amount in one.in_flight.items()}
    allowed = {"uncertain_calls": len(in_flight), "uncertain": sum(in_flight.values())}
    assert here["spend"] == there["spend"] | allowed, f"spend {here['spend']}, allowed {allowed}"
    end = Remains(home)
    for one in remains:
        assert one.results.items() <= end.results.items(), "a recorded step was done again"
        assert one.events == end.events[: len(one.events)], "an event changed or lost its number"


def _difference(name: str, here: Any, there: Any) -> str:
    """The first rows that are in one dump alone."""
    if isinstance(here, dict):
        here, there = ([list(item) for item in one.items()] for one in (here, there))
    only_here = [str(row)[:300] for row in here if row not in there][:2]
    missing = [str(row)[:300] for row in there if row not in here][:2]
    lengths = f"{len(here)} instead of {len(there)}"
    return f"{name} has {lengths}, only here {only_here}, missing {missing}"


class Remains:
    """What a death left in the database, read from a copy, so that the next life finds it as it was.

    AssertionError when the database is damaged, a cap is passed, or more calls are in flight than
    can be.
    """

    def __init__(self, home: Path) -> None:
        self.in_flight: dict[int, int] = {}  # reserved micro-dollars by call
        self.results: dict[tuple[int, str], tuple[int, str, str]] = {}
        self.events: list[tuple[int, str]] = []
        with tempfile.TemporaryDirectory() as folder:
            for file in home.glob("pawl.db*"):
                if not file.name.endswith("-shm"):
                    shutil.copy(file, folder)
            connection = sqlite3.connect(Path(folder) / "pawl.db")
            try:
                self._read(connection)
            finally:
                connection.close()

    def _read(self, connection: sqlite3.Connection) -> None:
        said = connection.execute("PRAGMA integrity_check").fetchall()
        assert said == [("ok",)], f"the database is damaged: {said}"
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'run'").fetchone():
            return
        sent = connection.execute(
            "SELECT modelcall.id, amount FROM modelcall JOIN reservation"
            " ON reservation.id = modelcall.reservation WHERE status = 'sent'"
        )
        self.in_flight = dict(sent.fetchall())
        assert len(self.in_flight) <= AT_ONCE, "more calls in flight than may be"
        done = connection.execute(
            "SELECT round, step, id, ended_at, result FROM step WHERE status = 'done'"
        )
        self.results = {(round_, step): (*rest,) for round_, step, *rest in done}
        self.events = connection.execute("SELECT seq, text FROM event ORDER BY id").fetchall()
        passed = connection.execute(
            "SELECT id FROM account WHERE model_settled + model_reserved > model_cap"
            " OR model_settled + model_reserved + device_settled + device_reserved > total_cap"
        )
        over = passed.fetchall()
        assert not over, f"a cap is passed: {over}"


def leave_running(home: Path) -> "subprocess.Popen[bytes]":
    """A child as a dead server leaves it: running, and recorded in the database of its home."""
    process, info = start_child(["sleep", "600"], home / "logs" / "orphan.log")
    with closing(sqlite3.connect(home / "pawl.db")) as connection, connection:
        connection.execute(
            "INSERT INTO child (pid, pgid, started, command, purpose) VALUES (?, ?, ?, ?, 'worker')",
            (info.pid, info.pgid, str(info.started), info.command),
        )
    return process


def cut_an_answer_short(home: Path) -> None:
    """Leave half a line at the end of the newest answers, as a death while writing can."""
    file = max(home.glob("runs/*/answers/*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    with open(file, "a") as answers:
        answers.write('{"key": "half a li')
