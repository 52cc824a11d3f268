"""The parent's end of one worker process: started, spoken to in JSON lines, watched, ended."""

import json
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.children import ChildInfo, end_child, has_ended, start_child
from engine.types import TrainProgress

STALL_SECONDS = 600.0
STALL_STEPS = 20.0  # of the median step
POLL_SECONDS = 0.2
QUIT_SECONDS = 2.0
STOP_SECONDS = 10.0  # a worker that has not stopped by then is not listening
SEND_SECONDS = 60.0  # nor is one that takes no more commands in
GRACE_SECONDS = 2.0  # between the polite signal and the other one
WORKER = (sys.executable, "-m", "engine.worker")


class WorkerGone(Exception):
    """The worker's end of the socket closed; `code` is its exit status, negative for a signal."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the worker process ended with status {code}")
        self.code = code


class WorkerSilent(Exception):
    """Nothing moved in the worker for too long; `stopping` when it had been asked to stop."""

    def __init__(self, seconds: float, stopping: bool) -> None:
        super().__init__(f"no progress for {seconds:.0f} s")
        self.stopping = stopping


class WorkerError(Exception):
    """The worker reported an error of this kind: stopped, model, memory, disk, failed, broken."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def converse(
    link: "WorkerLink",
    do: str,
    fields: Mapping[str, Any],
    handlers: Mapping[str, Callable[[dict[str, Any]], None]],
    stop: Callable[[], bool],
    limit: Callable[[], float],
) -> None:
    """Send a command and pass its reports to the handlers until the worker says that it is done.

    When `stop` says so, or a handler raises, the worker is asked to stop, and given 10 s for it.
    Raises what the handler raised, WorkerError, WorkerGone, or WorkerSilent after `limit()` seconds
    without progress; reports that are waiting here are read before that is judged.
    """
    command_id = link.send(do, **fields)
    failure: BaseException | None = None
    progress, moved_at, stopping_at = -1, time.monotonic(), 0.0
    while True:
        report = link.receive(POLL_SECONDS)
        now = time.monotonic()
        word = report["say"] if report else ""
        if report and report.get("progress") != progress and word == "beat":
            progress, moved_at = report["progress"], now
        if report and report.get("id") == command_id:
            break
        if report and word in handlers and failure is None:
            try:
                handlers[word](report)
            except BaseException as error:  # noqa: BLE001 - raised again below
                failure = error
        if not stopping_at and (failure or stop()):
            link.stop(command_id)
            stopping_at = now
        if stopping_at and now - stopping_at > STOP_SECONDS:
            raise failure or WorkerSilent(STOP_SECONDS, stopping=True)
        if report is None and now - moved_at > limit():
            raise failure or WorkerSilent(limit(), stopping=False)
    if failure:
        raise failure
    if word == "error":
        raise WorkerError(report["kind"], report["text"])


class StepWatch:
    """How long a training step may take, from those seen so far."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._last: float | None = None

    def saw(self, progress: TrainProgress) -> None:
        took = progress.seconds - (self._last or progress.seconds)
        if took > 0:  # a training that goes on from its checkpoint goes back first
            self._seconds.append(took)
        self._last = progress.seconds

    def limit(self) -> float:
        median = statistics.median(self._seconds[-50:]) if self._seconds else 0.0
        return max(STALL_SECONDS, STALL_STEPS * median)


class WorkerLink:
    """A running worker process and the socket to it."""

    def __init__(self, log_file: Path, command: Sequence[str] = WORKER) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(SEND_SECONDS)
        with theirs:
            arguments = [*command, "--fd", str(theirs.fileno())]
            self.process, self.info = self._start(arguments, log_file, theirs.fileno())
        self.wire = ours
        self._buffer = b""
        self._next_id = 0

    @staticmethod
    def _start(
        arguments: Sequence[str], log_file: Path, fd: int
    ) -> tuple[subprocess.Popen[bytes], ChildInfo]:
        return start_child(arguments, log_file, pass_fds=(fd,))

    def send(self, do: str, **fields: Any) -> int:
        """Send one command; returns its number, by which it can be stopped."""
        self._next_id += 1
        self._write({"do": do, "id": self._next_id, **fields})
        return self._next_id

    def stop(self, command_id: int) -> None:
        """Ask the worker to leave a command at its next step."""
        self._write({"do": "stop", "id": command_id})

    def _write(self, record: dict[str, Any]) -> None:
        try:
            self.wire.sendall(json.dumps(record).encode() + b"\n")
        except TimeoutError:
            raise WorkerSilent(SEND_SECONDS, stopping=False) from None
        except OSError:
            raise WorkerGone(self._reap()) from None

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """The next report, or None when none came in time; WorkerGone at the end of the socket."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            try:
                if left <= 0 or not select.select([self.wire], [], [], left)[0]:
                    return None
                data = self.wire.recv(1 << 20)
            except (OSError, ValueError):  # also when another thread has closed it
                data = b""
            if not data:
                raise WorkerGone(self._reap())
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        report: dict[str, Any] = json.loads(line)
        return report

    def end(self, gently: bool = False) -> int:
        """End the process with its group and close the socket; its exit status."""
        if gently:
            try:
                self._write({"do": "quit"})
                has_ended(self.info.pid, QUIT_SECONDS)
            except (WorkerGone, WorkerSilent):
                pass
        end_child(self.info, GRACE_SECONDS)
        self.wire.close()
        return self.process.wait()

    def is_gone(self) -> bool:
        """Whether the process has ended by itself."""
        return has_ended(self.info.pid, 0.0)

    def _reap(self) -> int:
        """The exit status of a process that closed its socket, ended with its group."""
        has_ended(self.info.pid, QUIT_SECONDS)
        end_child(self.info, GRACE_SECONDS)
        return self.process.wait()
