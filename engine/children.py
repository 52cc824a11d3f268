"""Child processes: how they are started, recognised later, and ended.

A child gets an allow-listed environment (no key of any provider), a session of its own, and a log
file instead of a terminal. It is known by process id, start time and command line together, so
that a number which the system has given to another process in the meantime is never ended.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "CUDA_VISIBLE_DEVICES")
PASSED_ON_PREFIXES = ("LC_", "OMP_", "MKL_", "OPENBLAS_")
LOG_BYTES = 10 * 1024 * 1024
LOG_FILES = 10


@dataclass(kw_only=True, slots=True, frozen=True)
class ChildInfo:
    """What names a child for good: `started` is in clock ticks after the machine's start."""

    pid: int
    started: int
    pgid: int
    command: str


def start_child(
    arguments: Sequence[str], log_file: Path, pass_fds: Sequence[int] = ()
) -> tuple[subprocess.Popen[bytes], ChildInfo]:
    """Start `arguments` as leader of a session of its own; standard output and error go to the log.

    The fork happens on a thread that lives as long as this process, since the signal that a child
    asks for at its parent's death follows the thread that forked it.
    """
    log_file.parent.mkdir(parents=True, exist_ok=True)
    _rotate(log_file)

    def fork() -> subprocess.Popen[bytes]:
        with open(log_file, "ab") as log:
            return subprocess.Popen(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=child_environment(),
                pass_fds=pass_fds,
                start_new_session=True,
            )

    process = _on_lasting_thread(fork)
    return process, _info(process.pid, arguments)


def child_environment() -> dict[str, str]:
    """The environment of every child: a few names of ours passed on, and nothing else."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    # Cards are counted as the driver's tool counts them, not the fastest first.
    fixed = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    return {**kept, **fixed}


def is_alive(info: ChildInfo) -> bool:
    """Whether this very child still runs; a zombie, or another process with its number, does not."""
    stat = _stat(info.pid)
    if stat is None:
        return False
    state, started = stat
    return state not in "ZX" and started == info.started and _command(info.pid) == info.command


def end_child(info: ChildInfo, grace_seconds: float = 10.0) -> bool:
    """End a child with its whole group: TERM, then KILL after the grace; True when it was there.

    Nothing is done unless process id, start time and command line all match. Of a child that has
    ended, and was not waited for yet, what it left behind in its group is killed.
    """
    if not is_alive(info):
        if _stat(info.pid) == ("Z", info.started):
            _signal_group(info.pgid, signal.SIGKILL)
        return False
    _signal_group(info.pgid, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while is_alive(info) and time.monotonic() < deadline:
        time.sleep(0.05)
    # Once more for the group: the leader may have gone and left a process that ignores TERM.
    _signal_group(info.pgid, signal.SIGKILL)
    return True


def has_ended(pid: int, seconds: float) -> bool:
    """Whether a child of ours ends within `seconds`; it can still be waited for afterwards."""
    deadline = time.monotonic() + seconds
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        while os.waitid(os.P_PID, pid, flags) is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
    except ChildProcessError:  # waited for already
        pass
    return True


def die_with_parent() -> None:
    """Called in a child first thing: the kernel kills it when the thread that forked it ends."""
    if sys.platform != "linux":
        return
    import ctypes

    set_death_signal = 1
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(set_death_signal, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def _info(pid: int, arguments: Sequence[str]) -> ChildInfo:
    stat = _stat(pid)
    started = stat[1] if stat else 0
    return ChildInfo(pid=pid, started=started, pgid=pid, command=" ".join(arguments))


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time of a process from /proc, or None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in brackets may hold spaces and brackets: fields are counted after the last one.
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[19])


def _command(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def _signal_group(pgid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pgid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _rotate(log_file: Path) -> None:
    """Begin a new file once the last one is full; the oldest of them goes."""
    if not log_file.exists() or log_file.stat().st_size <= LOG_BYTES:
        return
    names = [log_file, *(log_file.with_name(f"{log_file.name}.{n}") for n in range(1, LOG_FILES))]
    for number in range(LOG_FILES - 1, 0, -1):
        if names[number - 1].exists():
            os.replace(names[number - 1], names[number])


class _LastingThread:
    """A thread that starts with the first child and ends with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run(self, call: Callable[[], None]) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="children", daemon=True)
                self._thread.start()
        self._calls.put(call)

    def _loop(self) -> None:
        while True:
            self._calls.get()()


_lasting = _LastingThread()


def _on_lasting_thread(
    fork: Callable[[], subprocess.Popen[bytes]],
) -> subprocess.Popen[bytes]:
    answer: Future[subprocess.Popen[bytes]] = Future()

    def call() -> None:
        try:
            answer.set_result(fork())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is read
            answer.set_exception(error)

    _lasting.run(call)
    return answer.result()
