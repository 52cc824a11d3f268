"""Trainings without a loop: which one has the device, who waits, who is to stop, how each ended."""

import shutil
import threading
import time
from functools import partial
from typing import Any

from sqlmodel import Session, col, select

from data.home import Home
from data.job_places import jobs_folder
from data.lifecycle import unreadable
from data.store import Store
from data.tables import INSERTED, Job, JobControl, Run, now
from engine.hand_driver import ALIVE, HandDriver, end_job, settle_stops
from engine.hand_train import STATE
from engine.stage import Bench, ReadyWorker
from engine.types import Stop

KIND = "train"
WAITS = "waits for the device"
CALM_SECONDS, CALMEST_SECONDS = 30.0, 600.0  # between two tries of a job, more from try to try


class HandJobs:
    """One at a time, the oldest first, and not while a run has the device."""

    def __init__(self, bench: Bench, worker: ReadyWorker, shutdown: Stop) -> None:
        self._bench, self._worker, self._shutdown = bench, worker, shutdown
        self._job: str | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()  # of the job that has the device
        self._rests: dict[str, tuple[int, float]] = {}  # by job: tries, and when the next may be
        remove_leftovers(bench.store, bench.home)

    @property
    def holder(self) -> str | None:
        """The job that has the device."""
        return self._job if self._thread is not None and self._thread.is_alive() else None

    @property
    def threads(self) -> list[threading.Thread]:
        """What must end before the server does."""
        return [self._thread] if self._thread is not None else []

    def look(self, run: str | None) -> None:
        """Carry out stops, and give the oldest waiting job the device unless `run` has it.

        A live run that waits for longer goes first.
        """
        waiting = _waiting(self._bench.store)
        if not waiting:
            return
        holder = self.holder
        if _has_stops(self._bench.store):
            stopped = self._bench.store.write(lambda s: _carry_out_stops(s, holder))
            if holder in stopped:
                self._stop.set()
            for one in set(stopped) - {holder}:
                shutil.rmtree(jobs_folder(self._bench.home) / one / STATE, ignore_errors=True)
            waiting = _waiting(self._bench.store)
        for job in waiting:
            if job.id == self.holder or self._is_resting(job.id):
                continue
            why = self._why_waits(job, run)
            if why is None:
                self._take_up(job.id)
            elif job.reason != why:
                self._bench.store.write(partial(_set_reason, job.id, why))

    def _take_up(self, job: str) -> None:
        self._job, self._stop = job, threading.Event()
        driver = HandDriver(self._bench, self._worker, job, self._stop.is_set, self._shutdown)
        target = partial(self._drive, driver, job)
        self._thread = threading.Thread(target=target, name=f"job-{job}", daemon=True)
        self._thread.start()

    def _drive(self, driver: HandDriver, job: str) -> None:
        """Drive a job. One that is not over then, as something must be mended first, rests."""
        try:
            driver()
        finally:
            tries = self._rests.get(job, (0, 0.0))[0] + 1
            calm = min(CALMEST_SECONDS, CALM_SECONDS * 2 ** min(tries - 1, 10))
            self._rests[job] = tries, time.monotonic() + calm

    def _is_resting(self, job: str) -> bool:
        return time.monotonic() < self._rests.get(job, (0, 0.0))[1]

    def _why_waits(self, job: Job, run: str | None) -> str | None:
        """What a job waits for: the device, the hours in which work may start, memory."""
        held_by = run or self.holder or self._older_run(job)
        if held_by is not None:
            return f"{WAITS}, held by {held_by}"
        machine = self._bench.machine
        closed = machine.why_closed() if job.status == "queued" else ""
        return closed or machine.why_no_room(job)

    def _older_run(self, job: Job) -> str | None:
        """A live run that has waited longer and takes the device in this turn."""
        if job.status != "queued":
            return None
        query = select(Run).where(
            Run.state == "starting",
            Run.mode == "live",
            Run.created_at < job.created_at,
            col(Run.reason).startswith(f"{WAITS}, "),  # one that waits for memory holds up nobody
        )
        domains = self._bench.library.domains
        with self._bench.store.read() as session:
            older = session.exec(query.order_by(INSERTED))
            return next((run.id for run in older if unreadable(run, domains) is None), None)


def _waiting(store: Store) -> list[Job]:
    """Jobs that are to be worked on: those begun before, then the oldest first."""
    query = select(Job).where(col(Job.run).is_(None), Job.type == KIND, col(Job.status).in_(ALIVE))
    with store.read() as session:
        found = list(session.exec(query.order_by(INSERTED)))
    return sorted(found, key=lambda job: job.status == "queued")


def _has_stops(store: Store) -> bool:
    with store.read() as session:
        return session.exec(_stops()).first() is not None


def _stops() -> Any:
    """Requests that trainings without a loop end, oldest first."""
    query = select(JobControl).join(Job, col(Job.id) == col(JobControl.job))
    return query.where(
        JobControl.status == "requested",
        JobControl.action == "stop",
        col(Job.run).is_(None),
        Job.type == KIND,
    ).order_by(col(JobControl.id))


def _carry_out_stops(s: Session, holder: str | None) -> list[str]:
    """End what waits; the jobs that were asked to stop. That of `holder` is left to its driver."""
    stopped = []
    for control in s.exec(_stops()).all():
        stopped.append(control.job)
        job = s.get_one(Job, control.job)
        if job.status in ALIVE and job.id == holder:
            continue
        if job.status in ALIVE:
            end_job(s, job, "cancelled", f"stopped by {control.author}")
        settle_stops(s, job)
    return stopped


def _set_reason(job_id: str, reason: str, s: Session) -> None:
    job = s.get_one(Job, job_id)
    if job.status in ALIVE:
        job.reason, job.updated_at = reason, now()
        s.add(job)


def remove_leftovers(store: Store, home: Home) -> None:
    """Remove files of jobs that were never taken in, and what ended trainings resumed from."""
    with store.read() as session:
        jobs = {folder: session.get(Job, folder.name) for folder in jobs_folder(home).glob("*")}
    for folder, job in jobs.items():
        if job is None:
            shutil.rmtree(folder, ignore_errors=True)
        elif job.status not in ALIVE:
            shutil.rmtree(folder / STATE, ignore_errors=True)
