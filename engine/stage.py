"""One phase of one run: journaled, leased, done by the executor, recorded with its rows."""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from sqlmodel import Session

from data import crash, events, journal
from data.disk import is_full
from data.home import Home
from data.store import Store
from data.tables import now
from engine.disk import check_room, disk_full
from engine.errors import EngineError, Interrupted, NeedsMending, StepFailed
from engine.executor import LocalExecutor
from engine.facts import Facts, JobFacts, Library, Tools
from engine.lease import HeldLease, device_lease
from engine.machine import Machine
from engine.models import gateway_student
from engine.models.gateway import CallPlace, Gateway
from engine.sandbox.owner import instance_of
from engine.students import local_student, student_for
from engine.types import ModelEngine, ModelRef, Stop
from engine.verdicts import Verdicts

ReadyWorker = Callable[[ModelRef, Stop], ModelEngine]

ROLES = {
    "diagnose": "student",
    "plan": "operator",
    "collect": "student",
    "admit": "verifier",
    "data_audit": "auditor",
    "train": "student",
    "evaluate": "student",
    "develop": "student",
    "blind": "student",
    "audit": "auditor",
}
HIDDEN = frozenset({"develop", "blind"})  # phases whose tasks no operator may read


@dataclass(kw_only=True, slots=True, frozen=True)
class Bench:
    """What a server has for every run: store, models, machine, executor."""

    home: Home
    store: Store
    library: Library
    gateway: Gateway
    executor: LocalExecutor
    epoch: int
    machine: Machine
    pace: float  # seconds that a simulated model takes for an answer
    least_free: int  # bytes that must be free before a phase begins
    base_model: Callable[[str], ModelRef]


class Stage:
    """Does the phases of one run, or of one job that no loop started."""

    def __init__(self, bench: Bench, run: Facts, worker: ReadyWorker, stop: Stop) -> None:
        self._bench, self._run, self._worker, self._stop = bench, run, worker, stop
        self._verdicts = Verdicts(run.secret, instance_of(run.home.path), run.id)

    def do(self, phase: ModuleType, number: int, past: dict[str, Any]) -> dict[str, Any]:
        """The phase's summary: read when it is recorded, else done and recorded now.

        Interrupted and NeedsMending leave the phase to be done again; every other EngineError is
        its failure.
        """
        store, run = self._bench.store, self._run
        with store.read() as session:
            recorded = journal.result_of(session, run.log_name, number, phase.NAME)
            if recorded is not None:
                return recorded
            check_room(self._bench.home.path, self._bench.least_free)
            work = phase.prepare(session, run, number, past)
        crash.point("before_intent")
        step = store.write(lambda s: _begin(s, run, number, phase.NAME, self._bench.epoch))
        crash.point("after_intent")
        try:
            result, seconds = self._execute(phase, work, number)
        except (Interrupted, NeedsMending):
            store.write(lambda s: journal.interrupt(s, step))
            raise
        except EngineError as error:
            reason = str(error)
            store.write(lambda s: journal.fail(s, step, reason))
            raise
        crash.point("after_execute")
        summary = store.write(lambda s: _record(s, phase, run, number, step, work, result, seconds))
        crash.point("after_result")
        return summary

    def close(self) -> None:
        """End the run's sandboxes, if it had any."""
        self._verdicts.close()

    def _execute(
        self, phase: ModuleType, work: dict[str, Any], number: int
    ) -> tuple[dict[str, Any], float]:
        started = time.monotonic()
        with self._lease(phase, number) as lease:
            tools = self._tools(phase, number, lease)
            try:
                result = self._bench.executor.run(phase, work, self._run, tools)
            except EngineError:
                raise
            except Exception as error:
                if is_full(error):
                    raise disk_full(self._bench.home.path) from error
                raise StepFailed(f"{phase.NAME}: {_unexpected(phase, error)}") from error
        return result, time.monotonic() - started

    @contextlib.contextmanager
    def _lease(self, phase: ModuleType, number: int) -> Iterator[HeldLease | None]:
        """The device, for phases that use it."""
        bench, run = self._bench, self._run
        if not phase.USES_DEVICE or run.dry:
            yield None
            return
        with (
            bench.machine.phase(run, phase.NAME) as device,
            device_lease(bench.store, run, number, phase.NAME, device) as lease,
        ):
            yield lease

    def _tools(self, phase: ModuleType, number: int, lease: HeldLease | None) -> Tools:
        bench, run = self._bench, self._run

        def stop() -> bool:
            return self._stop() or (lease is not None and lease.refused is not None)

        def student() -> ModelEngine:
            if isinstance(run, JobFacts):
                return local_student(
                    run.base_model, bench.base_model, self._worker, bench.pace, stop
                )
            place = CallPlace(run=run, round=number, step=phase.NAME, role="student")
            return student_for(
                place, bench.gateway, bench.base_model, self._worker, bench.pace, stop
            )

        return Tools(
            facts=run,
            round=number,
            step=phase.NAME,
            library=bench.library,
            folder=run.folder,
            store=bench.store,
            find_student=student,
            gateway=bench.gateway,
            model=gateway_student.model_ref if run.dry else bench.base_model,
            verdicts=self._verdicts,
            stop=stop,
        )


def _unexpected(phase: ModuleType, error: Exception) -> str:
    """A fault of ours in words; where tasks are hidden, its own text could be one of them."""
    kind = type(error).__name__
    if phase.NAME not in HIDDEN:
        return f"{kind}: {error}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{kind} in {Path(last.filename).name}, line {last.lineno}"


def _begin(s: Session, run: Facts, number: int, name: str, epoch: int) -> int:
    step = journal.intend(s, run.log_name, number, name, epoch)
    events.show(
        s,
        run.log_name,
        round=number,
        phase=name,
        role=ROLES.get(name, "engine"),
        tool=name,
        text=None,
        done=None,
        total=None,
        started_at=now(),
    )
    crash.point("in_intent")
    return step


def _record(
    s: Session,
    phase: ModuleType,
    run: Facts,
    number: int,
    step: int,
    work: dict[str, Any],
    result: dict[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """Rows, journal entry and event of a finished phase, in one transaction."""
    summary: dict[str, Any] = phase.record(s, run, number, work, result)
    journal.finish(s, step, summary, seconds)
    role = ROLES.get(phase.NAME, "engine")
    text = f"{phase.NAME.replace('_', ' ')}: {summary['text']}"
    events.append(s, run.log_name, "tool_result", text, role=role, tool=phase.NAME)
    crash.point("in_record")
    return summary
