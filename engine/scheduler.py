"""The engine of a server: finds runs that need a driver, and ends everything in order."""

import logging
import math
import os
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, or_, select

from data import crash
from data.disk import is_full
from data.files import remove_unfinished
from data.home import Home
from data.lifecycle import ENDED, move, unreadable
from data.store import Store
from data.tables import INSERTED, Child, Control, GatewayModel, Run, Server, now
from engine import controls
from engine.children import ChildInfo, end_child
from engine.disk import LEAST_BYTES, disk_full, write_surely
from engine.driver import CALM_SECONDS, INTERRUPTED, Driver, has_open_round
from engine.executor import LocalExecutor
from engine.facts import Library
from engine.hand_jobs import HandJobs
from engine.machine import Machine
from engine.models import simulated
from engine.models.gateway import Gateway
from engine.resources import BaseModels, Worker
from engine.run_end import rest, settle_leftovers
from engine.serving import endpoint_rows
from engine.serving.endpoints import Endpoints
from engine.serving.students import Students
from engine.stage import Bench

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
STOP_SECONDS = 15.0  # for what is in flight, from the first word of the stop on


@dataclass(kw_only=True, slots=True, frozen=True)
class EngineSettings:
    """What an engine is told at start.

    `device` is torch's name of it where no setting names another, `pace_seconds` the time that a
    simulated model takes for an answer, `gguf` the embedded model's file and `gguf_sha256` what it
    must be, `least_free` the bytes that must be free before a phase begins.
    """

    device: str
    pace_seconds: float = 0.02
    gguf: Path | None = None
    gguf_sha256: str | None = None
    least_free: int = LEAST_BYTES


class Engine:
    """Takes up runs from the database; the real worker is started when a run first needs it."""

    def __init__(
        self, store: Store, home: Home, library: Library, settings: EngineSettings
    ) -> None:
        self._store = store
        self.machine = Machine(store, home, library, settings.device)
        worker = Worker(store, home, self.machine.train_device)
        self._students = Students(store, home, worker)
        self.machine.rest_worker = self._students.rest
        self._stopping = threading.Event()
        self._drivers: dict[str, threading.Thread] = {}
        self._live: str | None = None  # the run that has the device
        self._left_alone: set[str] = set()  # runs that cannot be read
        self._interrupted_at = 0.0
        self._beat = time.monotonic()  # when it last looked for work, and could
        self._looking = threading.Lock()
        self._calm_until = 0.0  # nothing is looked for before, since the disk is full
        _end_children(store)
        remove_unfinished(home.path)
        epoch = write_surely(store, _recover)
        crash.point("after_recover")
        self._bench = Bench(
            home=home,
            store=store,
            library=library,
            gateway=Gateway(store, settings.pace_seconds, self._stopping.is_set),
            executor=LocalExecutor(),
            epoch=epoch,
            machine=self.machine,
            pace=settings.pace_seconds,
            least_free=settings.least_free,
            base_model=BaseModels(home, settings.gguf, settings.gguf_sha256),
        )
        base, stopped = self._bench.base_model, self._stopping.is_set
        self.endpoints = Endpoints(store, home, base, self.machine, stopped)
        self._hand = HandJobs(self._bench, self._students.ready, self._stopping.is_set)
        self._timer: Any = None

    def start(self) -> None:
        """Begin to look for work twice a second; the database says what there is."""
        from engine.clock import Timer

        self._timer = Timer(self.tick, TICK_SECONDS)
        self._timer.start()

    def tick(self) -> None:
        """Carry out control requests, then give every run that needs one a driver."""
        if self._stopping.is_set() or time.monotonic() < self._calm_until:
            return
        try:
            with self._looking:  # two who look at once would both take the same run
                self._look_for_work()
            self._beat = time.monotonic()
        except Exception as error:
            if not is_full(error):
                raise
            self._calm_until = time.monotonic() + CALM_SECONDS
            log.warning("nothing is taken up: %s", disk_full(self._bench.home.path))

    def beat_age(self) -> float:
        """Seconds since the engine last looked for work; infinite once it is being stopped."""
        return math.inf if self._stopping.is_set() else time.monotonic() - self._beat

    def interrupt(self) -> None:
        """Begin nothing more and ask what is in flight to end; returns at once."""
        if not self._stopping.is_set():
            self._interrupted_at = time.monotonic()
            self._stopping.set()

    def stop(self) -> None:
        """Interrupt every run so that it can be resumed, and wait for its last write.

        What has not ended 15 s after the interruption is settled as it stands and left behind.
        """
        self.interrupt()
        if self._timer is not None:
            self._timer.stop()  # no tick may add a driver from here on
            self._timer = None
        deadline = self._interrupted_at + STOP_SECONDS
        for thread in [*self._drivers.values(), *self._hand.threads]:
            thread.join(max(0.0, deadline - time.monotonic()))
        left = {run for run, thread in self._drivers.items() if thread.is_alive()}
        self.endpoints.close()
        self._students.close(seconds=max(0.0, deadline - time.monotonic()))
        try:
            write_surely(self._store, lambda s: _close_server(s, left))
            crash.point("after_server_end")
        except Exception as error:
            if not is_full(error):
                raise
            log.warning("the next start settles what is open: %s", error)

    def _look_for_work(self) -> None:
        self._drivers = {run: t for run, t in self._drivers.items() if t.is_alive()}
        if self._live not in self._drivers:
            self._live = None
        self._give_drivers("running")  # first, since the stop of a round under way waits for it
        if _has_requests(self._store):
            crash.point("before_controls")
            domains = self._bench.library.domains
            driven = set(self._drivers)
            self._store.write(lambda s: controls.carry_out(s, driven, domains))
            crash.point("after_controls")
        self._hand.look(self._live)
        self._give_drivers("running", "starting")
        self.endpoints.look()

    def _give_drivers(self, *states: str) -> None:
        for run in _wanting(self._store, states):
            if run.id not in self._drivers and self._is_readable(run):
                self._take_up(run)

    def _is_readable(self, run: Run) -> bool:
        reason = unreadable(run, self._bench.library.domains)
        if reason and run.id not in self._left_alone:
            self._left_alone.add(run.id)
            log.warning("run %s is left alone: %s", run.id, reason)
        return reason is None

    def _take_up(self, run: Run) -> None:
        """Drive the run in a thread of its own, unless it has to wait."""
        why = self._why_waits(run) if run.mode == "live" else None
        if why:
            self._let_wait(run, why)
            return
        if run.mode == "live":
            self._live = run.id
        driver = Driver(self._bench, self._students.ready, run.id, self._stopping.is_set)
        thread = threading.Thread(target=driver, name=f"run-{run.id}", daemon=True)
        self._drivers[run.id] = thread
        thread.start()

    def _why_waits(self, run: Run) -> str | None:
        """What a live run waits for: the device, the hours in which rounds may start, memory."""
        holder = self._live or self._hand.holder
        if holder is not None:
            return f"waits for the device, held by {holder}"
        if not has_open_round(self._store, run.id) and (closed := self.machine.why_closed()):
            return closed
        return self.machine.why_no_room(run)

    def _let_wait(self, run: Run, reason: str) -> None:
        if run.reason != reason:
            self._store.write(lambda s: _set_reason(s, run.id, reason))


def _wanting(store: Store, states: Collection[str]) -> list[Run]:
    """Runs in one of these states that are to be worked on, oldest first."""
    with store.read() as session:
        query = select(Run).where(
            col(Run.state).in_(states),
            or_(col(Run.start_after).is_(None), col(Run.start_after) <= now()),
        )
        return list(session.exec(query.order_by(INSERTED)))


def _has_requests(store: Store) -> bool:
    query = select(Control.id).where(Control.status == "requested")
    with store.read() as session:
        return session.exec(query).first() is not None


def _set_reason(s: Session, run_id: str, reason: str) -> None:
    run = s.get_one(Run, run_id)
    run.reason, run.updated_at = reason, now()
    s.add(run)


def _end_children(store: Store) -> None:
    """End the processes that a server which died left behind, and only those."""
    unended = col(Child.ended_at).is_(None)
    with store.read() as session:
        left = list(session.exec(select(Child).where(unended)))
    for child in left:
        end_child(_info(child))
    crash.point("after_children")

    def change(s: Session) -> None:
        for child in s.exec(select(Child).where(unended)):
            child.ended_at = now()
            s.add(child)

    store.write(change)


def _recover(s: Session) -> int:
    """What a server that died left behind: leases, calls and half-done steps; the new epoch."""
    settle_leftovers(s)
    endpoint_rows.recover(s)
    for run in s.exec(select(Run).where(Run.state == "paused", Run.reason == INTERRUPTED)):
        move(s, run, "running", None)
    for model in simulated.gateway_rows():
        if s.get(GatewayModel, model.name) is None:
            s.add(model)
    server = Server(pid=os.getpid())
    s.add(server)
    s.flush()
    assert server.epoch is not None
    crash.point("in_recover")
    return server.epoch


def _info(child: Child) -> ChildInfo:
    return ChildInfo(
        pid=child.pid, pgid=child.pgid, started=int(child.started), command=child.command
    )


def _close_server(s: Session, left: set[str]) -> None:
    """The server's end; runs in `left` did not end by themselves and are settled as they stand."""
    for run in s.exec(select(Run).where(col(Run.id).in_(left))):
        settle_leftovers(s, run.id)
        if run.state not in ENDED | {"paused"}:
            rest(s, run, "paused", INTERRUPTED)
    for server in s.exec(select(Server).where(col(Server.ended_at).is_(None))):
        server.ended_at = now()
        s.add(server)
    crash.point("in_server_end")
