"""SIGTERM and Ctrl-C: what is in flight is finished or settled in time, and no child is left."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from app.admin import call_admin
from data.home import HomeLock, open_home
from data.tables import Child, Lease, Live, ModelCall, Reservation, Run, TrainPoint
from engine.driver import INTERRUPTED
from engine.models.gateway_student import AT_ONCE
from engine.types import ModelRef
from tests.server.process import ROOT, SMALL, Server, environment_for, is_running
from tests.stopwatch import Stopwatch, seconds_until
from tests.waiting import eventually
from tests.worker.tiny_loop import lay_model

IN_TIME = 20
AT_ONCE_SECONDS = 2  # at a second signal; without one the wait would be for 15


@pytest.fixture
def servers(tmp_path):
    """Starts servers on one home, and ends what a test leaves behind."""
    started: list[Server] = []

    def start(**environment: str) -> Server:
        started.append(Server(tmp_path, **environment))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def signalled(process: subprocess.Popen[Any], number: signal.Signals) -> float:
    """Send the signal; seconds until the process has ended."""
    watch = Stopwatch()
    process.send_signal(number)
    process.wait(90)
    return watch.stop()


def check_settled(server: Server, *runs: str) -> None:
    """Everything is as a server in order leaves it, without any process of its own."""
    assert not server.children()
    assert {child.ended_at is None for child in server.read(select(Child))} <= {False}
    assert {one.state for one in server.read(select(Reservation))} <= {"settled", "uncertain"}
    assert {lease.state for lease in server.read(select(Lease))} <= {"ended"}
    for run in runs:
        row = server.run(run)
        assert (row.state, row.reason) == ("paused", INTERRUPTED)
    assert not server.home.admin_socket.exists() and not server.home.server_json.exists()
    HomeLock(server.home).release()
    assert "Traceback" not in server.log.read_text(), server.log.read_text()


SENT = select(ModelCall).where(ModelCall.status == "sent")


def test_calls_that_hang_are_settled_and_no_new_one_is_made(servers):
    server = servers(PAWL_SIM_PACE="300")
    server.start_run(run="r", dry_run=True, limits=SMALL, rounds=1)
    server.wait_for(SENT.offset(AT_ONCE - 1), 60)
    hanging = {call.id for call in server.read(SENT)}
    assert len(hanging) == AT_ONCE
    assert signalled(server.process, signal.SIGTERM) < IN_TIME
    assert server.process.returncode == 0
    check_settled(server, "r")
    calls = server.read(select(ModelCall))
    assert {call.id for call in calls} == hanging
    assert {call.status for call in calls} == {"uncertain"}

    again = servers(PAWL_SIM_PACE="0.001")
    again.wait_for(select(Run).where(Run.state == "finished"), 120)
    assert {call.status for call in again.read(select(ModelCall))} == {"uncertain", "answered"}


def test_calls_that_end_in_time_are_kept(servers):
    server = servers(PAWL_SIM_PACE="3")
    server.start_run(run="r", dry_run=True, limits=SMALL, rounds=1)
    server.wait_for(SENT, 60)
    assert signalled(server.process, signal.SIGINT) < 10
    assert server.process.returncode == 0
    check_settled(server, "r")
    calls = server.read(select(ModelCall))
    assert calls and {call.status for call in calls} == {"answered"}


@pytest.mark.browser
def test_a_training_under_way_with_two_pages_open(servers, tiny: ModelRef, chromium, tmp_path):
    from playwright.sync_api import sync_playwright

    lay_model(tmp_path, tiny)
    server = servers()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        pages = [browser.new_context().new_page() for _ in range(2)]
        for page in pages:
            page.goto(call_admin(server.home.admin_socket, "link"))
            page.goto(server.url)
        server.start_run(run="r", preset="smoke", base_model="tiny")
        server.wait_for(select(TrainPoint), 90)
        pages[0].goto(f"{server.url}/runs/r")
        workers = server.children()
        assert signalled(server.process, signal.SIGTERM) < IN_TIME
        browser.close()
    assert server.process.returncode == 0
    assert workers and not any(is_running(pid) for pid in workers)
    if server.run("r").state != "finished":
        check_settled(server, "r")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(servers, tiny: ModelRef, tmp_path, number):
    lay_model(tmp_path, tiny)
    server = servers(PAWL_SIM_PACE="300")
    server.start_run(run="hangs", dry_run=True, limits=SMALL, rounds=1)
    server.start_run(run="works", preset="smoke", base_model="tiny")
    server.wait_for(SENT, 60)
    server.wait_for(select(Child), 60)
    workers = server.children()
    server.process.send_signal(number)
    time.sleep(1)
    assert server.process.poll() is None, "the first one waits for what is in flight"
    assert signalled(server.process, number) < AT_ONCE_SECONDS
    assert server.process.returncode == 128 + number
    assert seconds_until(lambda: not any(is_running(pid) for pid in workers)) < 5


@pytest.mark.parametrize("seconds", [0.2, 0.6, 1.0, 1.5, 2.5])
def test_a_start_is_stopped_at_any_moment_of_it(tmp_path, seconds):
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "run.py"), "serve", "--no-browser"],
            env=environment_for(tmp_path / "home"),
            stdout=output,
            stderr=output,
        )
    time.sleep(seconds)
    try:
        assert signalled(process, signal.SIGTERM) < IN_TIME
        # Before anything of ours is there, the system ends it.
        assert process.returncode in (0, -signal.SIGTERM), log.read_text()
    finally:
        process.kill()
    assert "Traceback" not in log.read_text(), log.read_text()
    HomeLock(open_home(tmp_path / "home")).release()


def demo(home: Path, **environment: str) -> subprocess.Popen[str]:
    """A demo on simulated models."""
    command = [sys.executable, str(ROOT / "run.py"), "demo", "--preset", "sim", "--rounds", "1"]
    return subprocess.Popen(
        command,
        env={**environment_for(home), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rows_of(home: Path, table: type[Any]) -> list[Any]:
    """A home's rows of a kind, once there is a database."""
    from data.store import Reader

    reader = Reader(home / "pawl.db")
    try:
        with reader.read() as session:
            return list(session.exec(select(table)))
    except Exception:  # noqa: BLE001  not there yet
        return []
    finally:
        reader.close()


def wait_until_at_work(home: Path) -> None:
    """Until a model is asked, which it is a moment after it has been announced."""
    eventually(lambda: rows_of(home, Live))
    time.sleep(2)


def test_the_demo_stops_in_order_and_at_once_when_asked_twice(tmp_path):
    stopped = demo(tmp_path, PAWL_SIM_PACE="0.02")
    wait_until_at_work(tmp_path)
    watch = Stopwatch()
    stopped.send_signal(signal.SIGINT)
    said = stopped.communicate(timeout=90)[0]
    assert watch.stop() < IN_TIME
    assert stopped.returncode == 130 and "Interrupted. The run is kept" in said
    assert "Traceback" not in said
    assert [(run.state, run.reason) for run in rows_of(tmp_path, Run)] == [("paused", INTERRUPTED)]

    twice = demo(tmp_path / "twice", PAWL_SIM_PACE="300")
    wait_until_at_work(tmp_path / "twice")
    twice.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert twice.poll() is None, "the first one waits for what is in flight"
    assert signalled(twice, signal.SIGTERM) < AT_ONCE_SECONDS
    twice.communicate(timeout=60)
    assert twice.returncode == 128 + signal.SIGTERM
