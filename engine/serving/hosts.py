"""The processes that answer for deployed versions: at most one a base model, woken by calls."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from engine.errors import EndpointNotReady, EngineError, HostGone, Interrupted
from engine.types import Host, ModelRef, Stop

log = logging.getLogger(__name__)

MOST_ADAPTERS = 8  # that a process keeps ready; the one not asked for longest goes first
DRAIN_SECONDS = 60.0  # for answers under way, before a process has to end
END_SECONDS = 15.0  # for a process that was told to end while it started, or that ends already
ENDING = "the server is ending; call again once it is back"
GAVE_WAY = "it was still starting when training needed the device; call again after that"


@dataclass(kw_only=True, slots=True)
class Seat:
    """A base model's place: its process or none, who is being answered, what is loaded."""

    base: ModelRef
    state: str = "asleep"  # asleep | waking | ready | closing
    host: Host | None = None
    lease: Any = None
    busy: int = 0  # calls under way
    used_at: float = 0.0
    unneeded_since: float | None = None
    loaded: dict[str, ModelRef] = field(default_factory=dict)  # oldest use first
    loading: threading.Lock = field(default_factory=threading.Lock)
    failures: int = 0
    failure: EngineError | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class Means:
    """What hosts are made with. `begin` and `end` note who holds the device; `why_not` says why no
    process may begin now, or None; `told` is called after every change of a seat."""

    make: Callable[[ModelRef], Host]
    begin: Callable[[str], Any]
    end: Callable[[Any], None]
    why_not: Callable[[ModelRef], str | None]
    told: Callable[[Seat], None]
    stop: Stop


class Hosts:
    """Wakes, shares and ends processes. All methods may be called from any thread."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._seats: dict[str, Seat] = {}
        self._turn = threading.Condition()

    @contextmanager
    def use(self, model: ModelRef, job: str) -> Iterator[Host]:
        """The process that answers as `model`, up and with its adapter; woken for `job` if it has to.

        EndpointNotReady or what its start failed with; two callers of one base wait for one start.
        """
        seat = self._ready(model, job)
        try:
            host = seat.host
            assert host is not None
            if model.adapter is not None:
                _load(seat, host, model)
            yield host
        finally:
            with self._turn:
                seat.busy -= 1
                seat.used_at = time.monotonic()
                self._turn.notify_all()

    def wake(self, model: ModelRef, job: str) -> None:
        """Begin to have a process up, without waiting for it."""
        with self._turn:
            seat = self._seat(model)
            if seat.state == "asleep":
                self._begin(seat, job)

    def look(self, idle_seconds: float, needed: Collection[str]) -> None:
        """End processes that died, whose base nobody needs, or that nobody asked for so long."""
        with self._turn:
            for seat in self._seats.values():
                if seat.state != "ready" or seat.host is None:
                    continue
                rests = seat.busy == 0
                idle = rests and time.monotonic() - seat.used_at > idle_seconds
                unneeded = _unneeded(seat, seat.base.base not in needed)
                if idle or unneeded or not seat.host.is_up():
                    self._end(seat)

    def states(self) -> dict[str, str]:
        """The state of every base's process that there ever was."""
        with self._turn:
            return {seat.base.base: seat.state for seat in self._seats.values()}

    def engine_of(self, base: str) -> str | None:
        """The engine, device and precision of a base's process that is up; None without one."""
        with self._turn:
            seats = [seat for seat in self._seats.values() if seat.base.base == base]
            return next((seat.host.name for seat in seats if seat.host is not None), None)

    def make_room(self, seconds: float = DRAIN_SECONDS) -> None:
        """End every process, so that its memory is free: once the answers under way are given, at
        the latest after `seconds`. Calls that come meanwhile wait."""
        deadline = time.monotonic() + seconds
        drained: list[Seat] = []
        with self._turn:
            seats = [seat for seat in self._seats.values() if seat.state != "asleep"]
            while True:
                drained += _shut(seats, "ready")
                waits = any(seat.busy or seat.state == "waking" for seat in seats)
                if not waits or not self._wait(deadline):
                    break
            late = _shut(seats, "waking")  # their own threads end them
        for seat in drained:
            self._close(seat)
        for seat in late:
            _end_host(seat.host)
        with self._turn:
            deadline = time.monotonic() + END_SECONDS
            while any(seat.state == "closing" for seat in seats) and self._wait(deadline):
                pass

    def close(self) -> None:
        """End every process now; calls under way end as HostGone."""
        with self._turn:
            seats = [seat for seat in self._seats.values() if seat.host is not None]
            self._turn.notify_all()
        for seat in seats:
            self._close(seat)

    def _ready(self, model: ModelRef, job: str) -> Seat:
        with self._turn:
            seat = self._seat(model)
            failures = seat.failures
            while True:
                if self._means.stop():
                    raise EndpointNotReady(ENDING)
                if seat.state == "ready" and seat.host is not None:
                    if seat.host.is_up():
                        seat.busy += 1
                        return seat
                    self._end(seat)
                elif seat.state == "asleep":
                    if seat.failures > failures and seat.failure is not None:
                        raise seat.failure
                    self._begin(seat, job)
                self._turn.wait(1.0)

    def _seat(self, model: ModelRef) -> Seat:
        key = f"{model.path} {model.revision}"
        if key not in self._seats:
            base = replace(model, adapter=None, adapter_hash=None)
            self._seats[key] = Seat(base=base)
        return self._seats[key]

    def _begin(self, seat: Seat, job: str) -> None:
        seat.state = "waking"
        name = f"serving-{seat.base.base}"
        threading.Thread(target=self._start, args=(seat, job), name=name, daemon=True).start()

    def _start(self, seat: Seat, job: str) -> None:
        """Have the process up; what went wrong is told to all who wait."""
        self._tell(seat)
        failure = self._try_start(seat, job)
        try:
            if failure is not None:
                self._release(seat)
        finally:
            with self._turn:
                if failure is not None:
                    seat.state = "asleep"
                seat.failure, seat.failures = failure, seat.failures + (failure is not None)
                seat.used_at = time.monotonic()
                self._turn.notify_all()
        self._tell(seat)

    def _try_start(self, seat: Seat, job: str) -> EngineError | None:
        """Start a process; its seat is ready then, or this says why it is not."""
        try:
            reason = self._means.why_not(seat.base)
            if reason is not None:
                raise EndpointNotReady(reason)
            seat.lease = self._means.begin(job)
            seat.host = self._means.make(seat.base)
            seat.host.start(seat.base, lambda: self._means.stop() or seat.state != "waking")
            with self._turn:
                if seat.state != "waking":
                    raise Interrupted("it was told to end before it was up")
                seat.state = "ready"
        except Exception as error:
            if self._means.stop() or seat.state != "waking":
                return EndpointNotReady(ENDING if self._means.stop() else GAVE_WAY)
            if isinstance(error, EngineError):
                return error
            log.exception("a process that serves did not start")
            return EndpointNotReady(f"it did not start: {type(error).__name__}; see the log")
        return None

    def _end(self, seat: Seat) -> None:
        """Begin to end a process that is up, or was."""
        seat.state = "closing"
        threading.Thread(target=self._close, args=(seat,), name="closing", daemon=True).start()

    def _close(self, seat: Seat) -> None:
        try:
            self._release(seat)
        finally:
            with self._turn:
                seat.state = "asleep"
                self._turn.notify_all()
        self._tell(seat)

    def _release(self, seat: Seat) -> None:
        host, lease = seat.host, seat.lease
        seat.host, seat.lease = None, None
        seat.loaded.clear()
        _end_host(host)
        try:
            if lease is not None:
                self._means.end(lease)
        except Exception:
            log.exception("the end of a process that served was not written")

    def _tell(self, seat: Seat) -> None:
        """Pass a change on; whoever waits for the seat is answered also when that fails."""
        try:
            self._means.told(seat)
        except Exception:
            log.exception("the state of a process that serves was not written")

    def _wait(self, deadline: float) -> bool:
        """Wait for any change; False once the deadline has come."""
        left = deadline - time.monotonic()
        if left > 0:
            self._turn.wait(min(left, 1.0))
        return left > 0


def _shut(seats: Collection[Seat], state: str) -> list[Seat]:
    """Let nobody new into the seats in that state; which they were."""
    found = [seat for seat in seats if seat.state == state]
    for seat in found:
        seat.state = "closing"
    return found


def _unneeded(seat: Seat, is_so: bool) -> bool:
    """Whether nobody needs a seat's process: at once when it rests, else after the time to drain."""
    now = time.monotonic()
    if not is_so:
        seat.unneeded_since = None
        return False
    if seat.unneeded_since is None:
        seat.unneeded_since = now
    return seat.busy == 0 or now - seat.unneeded_since > DRAIN_SECONDS


def _end_host(host: Host | None) -> None:
    try:
        if host is not None:
            host.close()
    except Exception:
        log.exception("a process that serves did not end in order")


def _load(seat: Seat, host: Host, model: ModelRef) -> None:
    """Have the adapter ready in the process; the host drains and probes."""
    with seat.loading:
        if model.identity not in seat.loaded:
            if not host.is_up():
                raise HostGone("the process ended; call again, and a new one answers")
            host.load(model)
        else:
            seat.loaded.pop(model.identity)
        seat.loaded[model.identity] = model
        with suppress(EndpointNotReady):  # answers are under way: it goes another time
            while len(seat.loaded) > MOST_ADAPTERS:
                longest = next(iter(seat.loaded))
                host.unload(seat.loaded[longest])
                del seat.loaded[longest]
