"""The live view loses no event: followed and paged, across a kill, to the last line of a run."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from data.tables import Event, ModelCall
from tests.doors.terminal import COMMAND, Terminal
from tests.doors.wire import Wire
from tests.server.process import ROOT, SMALL, Server

RUNS = "/v1/agent-runs/rsi/runs"
RUN = "talkative"
ENDED = ("finished", "failed", "stopped")
LOST = "The connection is lost; trying again.\n"
BEGUN, MANY = 300, 1000  # events before the kill, and at least in all
DRY = {"brief": "learn sums", "dry_run": True, "rounds": 1000, "limits": SMALL}

pytestmark = pytest.mark.timeout(300)


class Talkative(Server):
    """A server whose runs tell 40 lines of every report of progress."""

    command = (sys.executable, "-m", "tests.server.talkative")

    def __init__(self, home: Path) -> None:
        super().__init__(home, PAWL_SIM_PACE="0", PYTHONPATH=str(ROOT))


class Pages:
    """Reads a run page by page, each from where the last one ended; `lines` are what it saw."""

    def __init__(self, server: Server) -> None:
        self.cursor, self.lines, self.state, self.counts = 0, list[str](), "", list[int]()
        self.move_to(server)

    def move_to(self, server: Server) -> None:
        """Go on at another server of the same home."""
        self._wire = Wire(server, server.home.owner_key.read_text().strip())

    def read(self) -> None:
        """Read one page."""
        page = self._wire.send(method="GET", path=f"{RUNS}/{RUN}/live?since={self.cursor}").json
        self.lines += [f"{one['seq']} {one['kind']}: {one['text']}" for one in page["events"]]
        self.counts.append(len(page["events"]))
        self.cursor, self.state = page["next_cursor"], page["state"]

    def read_until(self, count: int = sys.maxsize) -> None:
        """Read on until there are so many lines, or the run shows its end."""
        deadline = time.monotonic() + 120
        while len(self.lines) < count and self.state not in ENDED:
            assert time.monotonic() < deadline, f"{len(self.lines)} lines after 120 s"
            self.read()
            if not self.counts[-1]:
                time.sleep(0.2)


@pytest.fixture
def el(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """The command on the machine of the server, which it finds by its home."""
    terminal = Terminal(monkeypatch, capsys)
    terminal.set(PAWL_HOME=str(tmp_path))
    return terminal


@pytest.fixture
def follower(el: Terminal, tmp_path: Path) -> Iterator[Any]:
    """Begins `el job run live --follow` as a process that writes into a file."""
    begun: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        with open(tmp_path / "followed", "w") as out:
            process = subprocess.Popen(
                [*COMMAND, "job", "run", "live", RUN, "--follow"],
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                env=dict(os.environ),
            )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def test_a_thousand_events_are_each_seen_once_in_order_also_across_a_kill_and_at_the_end(
    el: Terminal, follower: Any, tmp_path: Path
) -> None:
    first = second = Talkative(tmp_path)
    try:
        first.start_run(run=RUN, **DRY)
        following, paged = follower(), Pages(first)
        paged.read_until(BEGUN)
        while not (tmp_path / "followed").stat().st_size:
            assert following.poll() is None, following.stderr.read()
            time.sleep(0.05)
        first.kill()
        assert following.stderr.readline() == LOST
        second = Talkative(tmp_path)
        paged.move_to(second)
        paged.read_until(MANY)
        assert el("job", "run", "stop", RUN).json()["stop_requested"]
        paged.read_until()
        assert following.wait(timeout=120) == 0
        lost_again = list(following.stderr)  # where a slow answer is asked for again
        assert set(lost_again) <= {LOST} and len(lost_again) <= 3
        told = told_by(second)
        assert len(told) >= MANY and told[-1].startswith(f"{len(told)} message: run stopped")
        assert paged.lines == told
        followed = (tmp_path / "followed").read_text().splitlines()
        assert followed == [*told, "state: stopped"]
        check_what_is_over(el, second, told)
    finally:
        first.close()
        second.close()


def check_what_is_over(el: Terminal, server: Server, told: list[str]) -> None:
    """The whole run once more, from its beginning, now that nothing is added to it."""
    paged = Pages(server)
    paged.read_until()
    assert paged.lines == told
    assert set(paged.counts[:-1]) == {200} and sum(paged.counts) == len(told)
    paged.read()
    assert (paged.counts[-1], paged.cursor, paged.state) == (0, len(told), "stopped")
    done = el("job", "run", "live", RUN, "--follow")
    assert done.code == 0 and done.out.splitlines() == [*told, "state: stopped"]


def told_by(server: Server) -> list[str]:
    """Every event as the database has it, numbered without a gap."""
    rows = server.read(select(Event).where(Event.run == RUN).order_by(col(Event.seq)))
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    return [f"{row.seq} {row.kind}: {row.text}" for row in rows]


def test_a_start_answers_within_a_second_while_a_run_is_at_work(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        wire = Wire(server, server.home.owner_key.read_text().strip())
        server.start_run(run="at-work", **DRY)
        server.wait_for(select(ModelCall), 60)
        assert wire.send(method="GET", path=RUNS).json["items"][0]["state"] == "running"
        seconds = []
        for number in range(5):
            body = {"run": f"later-{number}", "start_after": "2099-01-01T00:00:00Z", **DRY}
            began = time.monotonic()
            answer = wire.send(body, path=RUNS)
            seconds.append(time.monotonic() - began)
            assert answer.status == 201 and answer.json["state"] == "starting"
        assert statistics.median(seconds) < 1.0, seconds
    finally:
        server.close()
