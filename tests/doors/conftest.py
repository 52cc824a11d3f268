"""One server for the tests of the doors, with keys of different people and a run that is over."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlmodel import select

from app.admin import call_admin
from data.tables import GatewayModel, Run
from tests.doors.terminal import Terminal
from tests.server.process import Server

SMALL = {"diag_per_family": 2, "dev_n": 20, "collect_tasks": 8, "blind_n": 20}
CAPS = {"max_model_cost_usd": 1.0}
OVER = "over-and-done"
numbers = itertools.count(1)


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """A server whose simulated models take no time, with a run that is over or soon will be."""
    started = Server(home, PAWL_SIM_PACE="0")
    try:
        started.wait_for(select(GatewayModel), 60)
        started.start_run(run=OVER, dry_run=True, rounds=1, limits=CAPS | SMALL)
        yield started
    finally:
        started.close()


def wait_until_over(server: Server) -> str:
    """The id of the run that is over, once it is."""
    server.wait_for(select(Run).where(Run.id == OVER, Run.state == "finished"), 180)
    return OVER


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of these tests."""
    with serving(tmp_path_factory.mktemp("doors")) as started:
        yield started


@pytest.fixture(scope="module")
def key(server: Server) -> str:
    """A key of a project automation; every test file has its own, since requests are counted."""
    return new_key(server, "developer")


@pytest.fixture(scope="module")
def viewer(server: Server) -> str:
    """A key that may read and nothing else."""
    return new_key(server, "viewer")


def new_key(server: Server, role: str) -> str:
    name = f"{role} {next(numbers)}"
    made = call_admin(server.home.admin_socket, "key.create", name=name, role=role)
    return str(made["key"])


@pytest.fixture(scope="package")
def over(server: Server) -> str:
    """A dry run of one round that has finished."""
    return wait_until_over(server)


@pytest.fixture
def el(
    server: Server,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Terminal:
    """The command `el` with the server's address and a key."""
    terminal = Terminal(monkeypatch, capsys)
    terminal.set(ENVLOOP_BASE_URL=server.url, ENVLOOP_API_KEY=key)
    return terminal
