"""What becomes of endpoints when something breaks, or the server ends, while they are asked."""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data.home import open_home
from data.store import Store
from data.tables import Job
from engine.errors import EndpointNotReady, HostGone, Interrupted, ModelUnavailable
from engine.machine import Machine
from engine.serving import endpoint_rows as rows
from engine.serving import endpoints as lent
from engine.serving.endpoints import Endpoints
from engine.types import ModelRef, Stop
from tests.instance import LIBRARY

SPEC = {"version": "b", "base_model": "b"}


def taken_up(store: Store, path: Path, find: Callable[[], None], ends: threading.Event) -> Job:
    """The row of a new endpoint once its taking up is over."""

    def base_model(name: str) -> ModelRef:
        find()
        return ModelRef(base=name, path="/models/b", revision="r1")

    home = open_home(path)
    machine = Machine(store, home, LIBRARY, "cpu")
    endpoints = Endpoints(store, home, base_model, machine, ends.is_set)
    store.write(lambda s: s.add(Job(id="e-1", project_id="p", type="inference", spec=SPEC)))
    before = set(threading.enumerate())
    endpoints.look()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    return rows.read(store, "e-1")


@pytest.fixture
def store(tmp_path: Path):
    with contextlib.closing(Store(open_home(tmp_path).database)) as store:
        yield store


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(13, "Permission denied", "/models/b"), "PermissionError: [Errno 13]"),
        (ModelUnavailable("b is not here"), "b is not here"),
    ],
)
def test_whatever_goes_wrong_an_endpoint_fails_with_the_reason(
    store: Store, tmp_path: Path, error: Exception, reason: str
) -> None:
    def find() -> None:
        raise error

    row = taken_up(store, tmp_path, find, threading.Event())
    assert row.status == "failed" and str(row.reason).startswith(reason)


@pytest.mark.parametrize("error", [Interrupted("stopped"), EndpointNotReady("it ends"), None])
def test_the_next_start_takes_up_what_was_starting_when_the_server_ended(
    store: Store, tmp_path: Path, error: Exception | None
) -> None:
    ends = threading.Event()

    def find() -> None:
        ends.set()
        if error is not None:
            raise error

    row = taken_up(store, tmp_path, find, ends)
    assert row.status == "starting" and row.reason is None
    store.write(rows.recover)
    assert [row.id for row in rows.queued(store)] == ["e-1"]


class Slow:
    """A host that answers until it is told to stop."""

    name, asked = "slow", threading.Event()

    def start(self, base: ModelRef, stop: Stop) -> None:
        """It is up at once."""

    def is_up(self) -> bool:
        return True

    def ask(self, model: ModelRef, route: str, body: Any, stop: Stop) -> dict[str, Any]:
        self.asked.set()
        while not stop():
            threading.Event().wait(0.01)
        raise HostGone("broken off")

    def close(self) -> None:
        """Nothing to end."""


def test_who_waits_for_an_answer_is_told_at_once_that_the_server_ends(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lent, "make_host", lambda *given: Slow())
    home, ends, found = open_home(tmp_path), threading.Event(), []
    machine = Machine(store, home, LIBRARY, "cpu")
    base = ModelRef(base="b", path="/models/b", revision="r1")
    endpoints = Endpoints(store, home, lambda name: base, machine, ends.is_set)
    job = Job(id="e-1", project_id="p", type="inference", status="running", spec=SPEC)
    store.write(lambda s: s.add(job))

    def call() -> None:
        try:
            endpoints.ask("e-1", "completions", {"prompt": "x"}, "owner")
        except HostGone as error:
            found.append(str(error))

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    assert Slow.asked.wait(60)
    ends.set()
    caller.join(60)
    assert found == ["broken off"]
    endpoints.close()
