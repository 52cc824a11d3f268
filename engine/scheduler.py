"""The engine of a server: finds runs that need a driver, and ends everything in order."""

import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from data import journal
from data.home import Home
from data.lifecycle import move
from data.store import Store
from data.tables import Child, Control, GatewayModel, Run, Server, Step, now
from engine import controls, lease
from engine.children import ChildInfo, end_child
from engine.driver import INTERRUPTED, Driver
from engine.executor import LocalExecutor
from engine.facts import Library
from engine.models import gateway, simulated
from engine.models.gateway import Gateway
from engine.resources import BaseModels, Worker
from engine.stage import Bench

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5


@dataclass(kw_only=True, slots=True, frozen=True)
class EngineSettings:
    """What an engine is told at start.

    `device` is torch's name of it, `micro_per_hour` its price in micro-dollars, `pace_seconds` the
    time that a simulated model takes for an answer, `gguf` the embedded model's file.
    """

    device: str
    micro_per_hour: int = 0
    pace_seconds: float = 0.02
    gguf: Path | None = None


class Engine:
    """Takes up runs from the database; the real worker is started when a run first needs it."""

    def __init__(
        self, store: Store, home: Home, library: Library, settings: EngineSettings
    ) -> None:
        self._store = store
        self._worker = Worker(store, home, settings.device)
        self._stopping = threading.Event()
        self._drivers: dict[str, threading.Thread] = {}
        self._live: str | None = None  # the run that has the device
        _end_children(store)
        epoch: int = store.write(_recover)
        self._bench = Bench(
            home=home,
            store=store,
            library=library,
            gateway=Gateway(store, settings.pace_seconds),
            executor=LocalExecutor(),
            epoch=epoch,
            device=settings.device,
            micro_per_hour=settings.micro_per_hour,
            pace=settings.pace_seconds,
            base_model=BaseModels(home, settings.gguf),
        )
        self._timer: Any = None

    def start(self) -> None:
        """Begin to look for work twice a second; the database says what there is."""
        from apscheduler.schedulers.background import BackgroundScheduler

        self._timer = BackgroundScheduler(timezone="UTC")
        self._timer.add_job(
            self.tick,
            "interval",
            seconds=TICK_SECONDS,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
        )
        self._timer.start()

    def tick(self) -> None:
        """Carry out control requests, then give every run that needs one a driver."""
        if self._stopping.is_set():
            return
        self._drivers = {run: t for run, t in self._drivers.items() if t.is_alive()}
        driven = set(self._drivers)
        if self._live not in driven:
            self._live = None
        if _has_requests(self._store):
            self._store.write(lambda s: controls.carry_out(s, driven))
        for run in _wanting(self._store):
            if run.id not in driven:
                self._take_up(run)

    def stop(self, seconds: float = 20.0) -> None:
        """Interrupt every run so that it can be resumed, and wait for its last write."""
        self._stopping.set()
        if self._timer is not None:
            self._timer.shutdown(wait=True)  # no tick may add a driver from here on
        deadline = time.monotonic() + seconds
        for thread in self._drivers.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._worker.close()
        self._store.write(_close_server)

    def _take_up(self, run: Run) -> None:
        """Drive the run in a thread of its own, unless another live run has the device."""
        if run.mode == "live" and self._live is not None:
            self._wait_for_device(run)
            return
        if run.mode == "live":
            self._live = run.id
        driver = Driver(self._bench, self._worker.ready, run.id, self._stopping.is_set)
        thread = threading.Thread(target=driver, name=f"run-{run.id}", daemon=True)
        self._drivers[run.id] = thread
        thread.start()

    def _wait_for_device(self, run: Run) -> None:
        reason = f"waits for the device, held by {self._live}"
        if run.reason != reason:
            self._store.write(lambda s: _set_reason(s, run.id, reason))


def _wanting(store: Store) -> list[Run]:
    """Runs that are to be worked on, oldest first."""
    with store.read() as session:
        query = select(Run).where(col(Run.state).in_(("starting", "running")))
        return list(session.exec(query.order_by(col(Run.created_at))))


def _has_requests(store: Store) -> bool:
    query = select(Control.id).where(Control.status == "requested")
    with store.read() as session:
        return session.exec(query).first() is not None


def _set_reason(s: Session, run_id: str, reason: str) -> None:
    run = s.get_one(Run, run_id)
    run.reason = reason
    s.add(run)


def _end_children(store: Store) -> None:
    """End the processes that a server which died left behind, and only those."""
    unended = col(Child.ended_at).is_(None)
    with store.read() as session:
        left = list(session.exec(select(Child).where(unended)))
    for child in left:
        end_child(_info(child))

    def change(s: Session) -> None:
        for child in s.exec(select(Child).where(unended)):
            child.ended_at = now()
            s.add(child)

    store.write(change)


def _recover(s: Session) -> int:
    """What a server that died left behind: leases, calls and half-done steps; the new epoch."""
    lease.end_leftovers(s)
    gateway.settle_leftovers(s)
    for step in s.exec(select(Step).where(Step.status == "intent")):
        journal.interrupt(s, step.id or 0)
    for run in s.exec(select(Run).where(Run.state == "paused", Run.reason == INTERRUPTED)):
        move(s, run, "running", None)
    for model in simulated.gateway_rows():
        if s.get(GatewayModel, model.name) is None:
            s.add(model)
    server = Server(pid=os.getpid())
    s.add(server)
    s.flush()
    assert server.epoch is not None
    return server.epoch


def _info(child: Child) -> ChildInfo:
    return ChildInfo(
        pid=child.pid, pgid=child.pgid, started=int(child.started), command=child.command
    )


def _close_server(s: Session) -> None:
    for server in s.exec(select(Server).where(col(Server.ended_at).is_(None))):
        server.ended_at = now()
        s.add(server)
