"""Processes that serve: one start for all who wait, adapters in turn, room made for others."""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.errors import EndpointNotReady, Interrupted, ModelUnavailable, RequestRefused
from engine.serving import hosts
from engine.serving.endpoints import in_harness
from engine.serving.hosts import Hosts, Means, Seat
from engine.types import ModelRef, Stop
from tests.waiting import eventually

BASE = ModelRef(base="b", path="/models/b", revision="r1")


def worn(name: str) -> ModelRef:
    return ModelRef(
        base="b", path="/models/b", revision="r1", adapter=f"/c/{name}", adapter_hash=name
    )


@dataclass
class Twin:
    """A host that answers with the name of the adapter, once its gate is open."""

    gate: threading.Event
    fails: str | None = None
    up: bool = False
    busy: bool = False
    loaded: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "twin"

    def start(self, base: ModelRef, stop: Stop) -> None:
        while not self.gate.wait(0.02):
            if stop():
                raise Interrupted("stopped while it was starting")
        if self.fails:
            raise ModelUnavailable(self.fails)
        self.up = True

    def load(self, model: ModelRef) -> None:
        self.loaded.append(str(model.adapter_hash))

    def unload(self, model: ModelRef) -> None:
        if self.busy:
            raise EndpointNotReady("answers are under way")
        self.loaded.remove(str(model.adapter_hash))

    def ask(
        self, model: ModelRef, route: str, body: Mapping[str, Any], stop: Stop = lambda: False
    ) -> dict[str, Any]:
        return {"text": model.adapter_hash}

    def stream(self, model: ModelRef, route: str, body: Mapping[str, Any]) -> Iterator[Any]:
        yield self.ask(model, route, body)

    def is_up(self) -> bool:
        return self.up

    def close(self) -> None:
        self.up = False


@dataclass
class Stand:
    """Hosts over twins, with what was begun, ended and told."""

    gate: threading.Event = field(default_factory=threading.Event)
    made: list[Twin] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    fails: str | None = None
    closed: str | None = None
    full: bool = False  # the disk, so that nothing can be written
    ending: bool = False
    came: set[threading.Thread] = field(default_factory=set)  # who asked whether it is ending

    def __post_init__(self) -> None:
        self.gate.set()
        self.hosts = Hosts(
            Means(
                make=self._make,
                begin=lambda job: self.held.append(job) or job,
                end=self._ended,
                why_not=lambda base: self.closed,
                told=self._told,
                stop=self._stops,
            )
        )

    def _make(self, base: ModelRef) -> Twin:
        self.made.append(Twin(self.gate, self.fails))
        return self.made[-1]

    def _stops(self) -> bool:
        self.came.add(threading.current_thread())
        return self.ending

    def _told(self, seat: Seat) -> None:
        self._written()
        self.states.append(seat.state)

    def _ended(self, lease: str) -> None:
        self._written()
        self.held.remove(lease)

    def _written(self) -> None:
        if self.full:
            raise OSError(28, "no space left on device")

    def call(self, model: ModelRef) -> Any:
        with self.hosts.use(model, "job-1") as host:
            return host.ask(model, "completions", {})["text"]

    def state(self) -> str:
        return self.hosts.states().get("b", "asleep")

    def wait(self, state: str) -> None:
        eventually(lambda: self.state() == state)


def both(stand: Stand) -> list[Any]:
    """What two callers at once get, errors among it."""
    found: list[Any] = []

    def call() -> None:
        try:
            found.append(stand.call(BASE))
        except (ModelUnavailable, EndpointNotReady) as error:
            found.append(str(error))

    stand.gate.clear()
    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    eventually(lambda: stand.came.issuperset(callers))  # and each waits for the one start
    stand.gate.set()
    for caller in callers:
        caller.join(60)
    return found


def test_two_calls_during_waking_are_answered_by_one_start() -> None:
    stand = Stand()
    assert both(stand) == [None, None]
    assert len(stand.made) == 1 and stand.held == ["job-1"]
    assert stand.states == ["waking", "ready"]


def test_a_start_that_fails_is_told_to_all_who_waited_and_tried_again_by_the_next() -> None:
    stand = Stand(fails="the adapter is for another base")
    assert both(stand) == ["the adapter is for another base"] * 2
    assert len(stand.made) == 1 and stand.held == [] and stand.state() == "asleep"
    stand.fails = None
    assert stand.call(worn("a")) == "a"


def test_a_device_in_use_is_said_and_nothing_is_started() -> None:
    stand = Stand(closed="the device is held by sums-1 (train)")
    with pytest.raises(EndpointNotReady, match="held by sums-1"):
        stand.call(BASE)
    assert stand.made == []


def test_of_many_adapters_the_one_not_asked_for_longest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "MOST_ADAPTERS", 2)
    stand = Stand()
    assert [stand.call(worn(name)) for name in "abaca"] == list("abaca")
    assert stand.made[0].loaded == ["a", "c"]


def test_whoever_comes_while_no_adapter_can_go_is_answered_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "MOST_ADAPTERS", 1)
    stand = Stand()
    stand.call(worn("a"))
    twin = stand.made[0]
    twin.busy = True
    assert stand.call(worn("b")) == "b" and twin.loaded == ["a", "b"]
    twin.busy = False
    assert stand.call(worn("c")) == "c" and twin.loaded == ["c"]


def test_a_process_that_died_is_started_again_by_the_next_call() -> None:
    stand = Stand()
    stand.call(worn("a"))
    stand.made[0].up = False
    assert stand.call(worn("a")) == "a"
    assert len(stand.made) == 2 and stand.held == ["job-1"]


def test_an_idle_or_unneeded_process_ends_and_a_busy_one_does_not() -> None:
    stand = Stand()
    with stand.hosts.use(BASE, "job-1"):
        stand.hosts.look(0.0, set())
        assert stand.state() == "ready"
    stand.hosts.look(60.0, {"b"})
    assert stand.state() == "ready"
    stand.hosts.look(60.0, set())
    stand.wait("asleep")
    assert not stand.made[0].up and stand.held == []


def test_making_room_waits_for_the_answer_under_way() -> None:
    stand = Stand()
    with stand.hosts.use(BASE, "job-1"):
        making = threading.Thread(target=stand.hosts.make_room)
        making.start()
        stand.wait("closing")
        assert stand.made[0].up
    making.join(60)
    assert not stand.made[0].up and stand.state() == "asleep"


def test_making_room_does_not_leave_a_process_that_still_starts() -> None:
    stand = Stand()
    stand.gate.clear()
    stand.hosts.wake(BASE, "job-1")
    stand.wait("waking")
    stand.hosts.make_room(0.1)
    assert stand.state() == "asleep" and stand.held == []
    stand.gate.set()
    assert stand.call(BASE) is None and stand.held == ["job-1"]


def test_what_cannot_be_written_keeps_nobody_from_being_answered() -> None:
    stand = Stand(full=True)
    assert stand.call(BASE) is None
    stand.hosts.look(0.0, {"b"})
    stand.wait("asleep")
    assert stand.call(BASE) is None and len(stand.made) == 2


def test_an_unneeded_process_that_never_ends_its_answers_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "DRAIN_SECONDS", 0.05)
    stand = Stand()
    with stand.hosts.use(BASE, "job-1"):
        stand.hosts.look(60.0, set())
        stand.hosts.look(60.0, {"b"})
        time.sleep(0.1)
        stand.hosts.look(60.0, set())
        assert stand.state() == "ready"
        time.sleep(0.1)
        stand.hosts.look(60.0, set())
        stand.wait("asleep")
    assert stand.held == []


def test_who_waits_for_a_start_while_the_server_ends_is_told_so() -> None:
    stand = Stand()
    stand.gate.clear()
    stand.hosts.wake(BASE, "job-1")
    found: list[Exception] = []

    def call() -> None:
        try:
            stand.call(BASE)
        except (EndpointNotReady, Interrupted) as error:
            found.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    stand.ending = True
    caller.join(60)
    assert isinstance(found[0], EndpointNotReady) and "server is ending" in str(found[0])


def test_a_version_is_asked_in_its_harness_where_the_caller_leaves_it_open() -> None:
    harness = {"system": "One word.", "temperature": 0.0}
    chat, said = "chat/completions", [{"role": "user", "content": "Hi"}]
    asked = in_harness(harness, chat, {"messages": said})
    assert asked["messages"][0] == {"role": "system", "content": "One word."}
    assert asked["temperature"] == 0.0
    own = [{"role": "developer", "content": "Rhyme."}, *said]
    asked = in_harness(harness, chat, {"messages": own, "temperature": 0.7})
    assert asked == {"messages": own, "temperature": 0.7}
    assert in_harness({}, chat, {"messages": said}) == {"messages": said}
    with pytest.raises(RequestRefused, match=r"^messages\[0\].content"):
        in_harness(harness, chat, {"messages": [{"role": "user", "content": 5}]})
    with pytest.raises(RequestRefused, match="at least one message"):
        in_harness(harness, chat, {"messages": []})
