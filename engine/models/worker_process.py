"""The worker process of one device with a base in it: started, spoken to, ended when not well."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.children import ChildInfo
from engine.errors import (
    DiskFull,
    EngineError,
    Interrupted,
    ModelUnavailable,
    WorkerFailed,
    WorkerLost,
)
from engine.models.worker_link import (
    STALL_SECONDS,
    WorkerError,
    WorkerGone,
    WorkerLink,
    WorkerSilent,
    converse,
)
from engine.types import ModelRef, Stop

LOAD_SECONDS = 600.0
KILLED = -9

Handler = Callable[[dict[str, Any]], None]


class NoMemory(WorkerFailed):
    """One try ran out of memory; a smaller batch may fit."""


class WorkerProcess:
    """At most one process, whose base is loaded by the call that needs it. One call at a time."""

    def __init__(
        self,
        *,
        log_file: Path,
        precision: str | None,
        device: str | None,
        threads: int | None,
        stall_seconds: float | None,
        record_child: Callable[[ChildInfo], None],
        forget_child: Callable[[ChildInfo], None],
        command: Sequence[str],
        closed: Stop,
    ) -> None:
        """As of WorkerEngine; once `closed` says so, a call under way ends as Interrupted."""
        self.log_file = log_file
        self.precision = precision
        self.device = device
        self.tried: dict[str, float] = {}  # seconds per trial step, when precision was measured
        self._threads = threads
        self._stall_seconds = stall_seconds
        self._record_child, self._forget_child = record_child, forget_child
        self._command = command
        self._closed = closed
        self._link: WorkerLink | None = None
        self._base: tuple[str, str] | None = None  # path and revision of what is loaded

    @property
    def pid(self) -> int | None:
        """Process id, or None while there is none."""
        return self._link.info.pid if self._link else None

    def is_up(self) -> bool:
        """Whether it runs."""
        link = self._link
        return link is not None and not link.is_gone()

    def call(
        self,
        model: ModelRef,
        do: str,
        fields: Mapping[str, Any],
        handlers: Mapping[str, Handler],
        stop: Stop,
        limit: Callable[[], float] = lambda: STALL_SECONDS,
    ) -> None:
        """One command with this base; what goes wrong comes out as an error of engine.errors."""
        self.load(model, stop)
        fixed = self._stall_seconds
        self._exchange(do, fields, handlers, stop, limit if fixed is None else lambda: fixed)

    def load(self, model: ModelRef, stop: Stop) -> None:
        """Have it running with this base in memory."""
        if self._link and self._link.is_gone():
            self.end()
        if self._link is None:
            self._link = WorkerLink(self.log_file, self._command)
            self._base = None
            self._record_child(self._link.info)
        if self._base == (model.path, model.revision):
            return
        fields = {
            "model": asdict(model),
            "precision": self.precision,
            "device": self.device,
            "threads": self._threads,
        }
        self._base = None
        self._exchange("load", fields, {"loaded": self._settle}, stop, lambda: LOAD_SECONDS)
        self._base = (model.path, model.revision)

    def end(self, gently: bool = False) -> None:
        """End it; the next call starts another."""
        link, self._link, self._base = self._link, None, None
        if link:
            link.end(gently)
            self._forget_child(link.info)

    def _settle(self, report: dict[str, Any]) -> None:
        self.device, self.precision = report["device"], report["precision"]
        self.tried = report["tried"] or self.tried

    def _exchange(
        self,
        do: str,
        fields: Mapping[str, Any],
        handlers: Mapping[str, Handler],
        stop: Stop,
        limit: Callable[[], float],
    ) -> None:
        """It is kept only when it is known to be well: after an answer of its own, and not after
        running out of memory."""
        assert self._link is not None
        well = False
        try:
            converse(self._link, do, fields, handlers, lambda: stop() or self._closed(), limit)
            well = True
        except WorkerGone as gone:
            raise self._lost(gone, do) from None
        except WorkerSilent as silent:
            if silent.stopping:
                raise Interrupted(
                    f"stopped in {do}; the worker did not answer and was ended"
                ) from None
            raise WorkerLost(f"the worker made {silent} in {do} and was ended") from None
        except WorkerError as error:
            well = error.kind not in ("memory", "broken")
            raise self._reported(error, do) from None
        finally:
            if not well:
                self.end()

    def _lost(self, gone: WorkerGone, do: str) -> EngineError:
        if self._closed():
            return Interrupted(f"the engine was closed in {do}")
        if gone.code == KILLED:
            return NoMemory("the system killed the worker, as it does when memory runs out")
        return WorkerLost(f"the worker ended with status {gone.code} in {do}")

    def _reported(self, error: WorkerError, do: str) -> EngineError:
        if error.kind == "stopped":
            return Interrupted(str(error))
        if error.kind == "model":
            return ModelUnavailable(str(error))
        if error.kind == "disk":
            return DiskFull(str(error))
        if error.kind == "memory":
            return NoMemory(str(error))
        if error.kind == "broken":
            return WorkerFailed(f"the worker failed in {do}: {error}; see {self.log_file}")
        return WorkerFailed(str(error))
