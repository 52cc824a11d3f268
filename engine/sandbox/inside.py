"""What runs in a warm container: a parent that forks a fresh, unprivileged child for every case.

Standard library alone; the text of this file is the container's command. The parent is root with
SETUID, SETGID and KILL and nothing else, and never runs a line of a case. A child gets a user id
and a scratch folder of its own, limits, closed descriptors and no capability; it sends what the
code returned, as JSON, and the comparison happens outside. Frames on standard input and output are
four bytes of length and JSON.
"""

import contextlib
import ctypes
import importlib
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

Record = dict[str, Any]

PRELOADED = (
    "abc array base64 bisect calendar cmath collections copy dataclasses datetime decimal "
    "enum fractions functools hashlib heapq io itertools json math numbers operator random re "
    "statistics string struct textwrap time types typing unicodedata uuid"
)
SCRATCH = "/scratch"
RESULTS = 3  # the child's descriptor for what its code returned
MOST_OUTPUT = 1 << 20
KILLED_GRACE = 0.5
NAP = 0.02
STALL = 0.25  # a nap that is longer by this: longer than the processor quota can make it
LIMITS = {
    resource.RLIMIT_FSIZE: 1 << 20,
    resource.RLIMIT_NOFILE: 64,
    resource.RLIMIT_NPROC: 16,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_STACK: 64 << 20,
}


def main() -> None:
    """Answer cases until the other end closes."""
    undumpable()
    os.chmod(SCRATCH, 0o1777)  # some engines ignore the mode that a tmpfs is asked for
    for name in PRELOADED.split():
        importlib.import_module(name)
    sys.setrecursionlimit(5_000)
    uid = int(sys.argv[1])
    send({"ready": os.getpid()})
    while (case := receive()) is not None:
        send(answer(case, uid))
        uid += 1


def answer(case: Record, uid: int) -> Record:
    """Run one case in a child of its own; how it ended, what it sent, and how long it took."""
    began = time.monotonic()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            become(uid, writing, case)
            run(case)
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  the code's own fault, told by name alone
            tell({"raised": type(error).__name__})
            os._exit(1)
    os.close(writing)
    output, ended = listen(reading, child, Deadline(case["seconds"]))
    os.close(reading)
    left = sweep(uid)
    status = ended if ended else how(child)
    return {
        "status": status,
        "output": output.decode(errors="replace"),
        "left": left,
        "seconds": round(time.monotonic() - began, 4),
    }


class Deadline:
    """When a case's time is over; that in which the machine stood still does not count.

    Whoever asks naps in between: by how much a nap was longer is what the child had to wait too.
    The host's own clock ends a container in which that never ends.
    """

    def __init__(self, seconds: float) -> None:
        self._asked = time.monotonic()
        self._at = self._asked + seconds

    def left(self) -> float:
        """Seconds; 0 or less when the time is over."""
        now = time.monotonic()
        late = now - self._asked - NAP
        self._asked = now
        if late > STALL:
            self._at += late
        return self._at - now


def listen(reading: int, child: int, deadline: Deadline) -> tuple[bytes, str]:
    """What the child sends until it ends; "time" or "output" when it was ended instead."""
    output, open_end = b"", True
    while (wait := deadline.left()) > 0:
        if open_end:
            select.select([reading], [], [], min(wait, NAP))
        # Asked before reading: what an ended child has written is all there.
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        if open_end and select.select([reading], [], [], 0)[0]:
            piece = os.read(reading, 65536)
            output += piece
            open_end = bool(piece)
            if len(output) > MOST_OUTPUT:
                return kill(child, output[:MOST_OUTPUT], "output")
        elif ended:
            return output, ""
        else:
            time.sleep(0.0 if open_end else 0.001)
    return kill(child, output, "time")


def kill(child: int, output: bytes, status: str) -> tuple[bytes, str]:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return output, status


def how(child: int) -> str:
    """How a child that ended by itself ended."""
    _, code = os.waitpid(child, 0)
    if os.WIFSIGNALED(code):
        number = os.WTERMSIG(code)
        names = {int(signal.SIGXCPU): "time", int(signal.SIGKILL): "memory"}
        return names.get(number, f"signal {number}")
    return "done" if os.WEXITSTATUS(code) == 0 else "raised"


def sweep(uid: int) -> int:
    """End every process of a user id and empty its scratch folder; how much had been left.

    What cannot be cleared away here counts too, so that the container is not used again.
    """
    left = len(processes_of(uid))
    helper = os.fork()
    if helper == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            with contextlib.suppress(ProcessLookupError):  # also those that no list has shown
                os.kill(-1, signal.SIGKILL)  # everyone of this user id but the caller
            empty(folder_of(uid))
        finally:
            os._exit(0)
    os.waitpid(helper, 0)
    deadline = time.monotonic() + KILLED_GRACE
    while left and processes_of(uid) and time.monotonic() < deadline:
        time.sleep(0.005)
    return left + len(os.listdir(SCRATCH)) + shared()


def shared() -> int:
    """Shared memory, queues and semaphores, which outlive the process that made them."""
    found = 0
    for kind in ("shm", "msg", "sem"):
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}") as file:
            found += len(file.readlines()) - 1  # a heading
    return found


def processes_of(uid: int) -> list[int]:
    """Processes of a user id that are more than zombies."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/status", errors="replace") as file:  # any name it likes
                    text = file.read()
            except OSError:
                continue
            if f"\nUid:\t{uid}\t" in text and "\nState:\tZ" not in text:
                found.append(int(name))
    return found


def empty(folder: str) -> None:
    for path, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(path, name))
        for name in folders:
            inner = os.path.join(path, name)
            (os.unlink if os.path.islink(inner) else os.rmdir)(inner)
    if os.path.isdir(folder):
        os.rmdir(folder)


def become(uid: int, writing: int, case: Record) -> None:
    """In the child: drop everything that a case has no need of."""
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    if writing != RESULTS:
        os.dup2(writing, RESULTS)
    os.closerange(RESULTS + 1, 256)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        signal.signal(signum, signal.SIG_DFL)
    limits = {
        **LIMITS,
        resource.RLIMIT_CPU: int(case["seconds"]) + 1,
        resource.RLIMIT_AS: case["memory"],
    }
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    no_new_privileges()
    os.umask(0o077)
    os.mkdir(folder_of(uid))
    os.chdir(folder_of(uid))
    os.environ.clear()
    os.environ.update({"HOME": folder_of(uid), "TMPDIR": folder_of(uid), "PATH": "/usr/bin:/bin"})


def folder_of(uid: int) -> str:
    return f"{SCRATCH}/{uid}"


def run(case: Record) -> None:
    """Define the code, then call its function for each input, telling what came back."""
    space: Record = {"__name__": "solution"}
    exec(compile(case["code"], "solution.py", "exec"), space)  # noqa: S102  what this is for
    if case.get("check"):
        exec(compile(case["check"], "check.py", "exec"), space)  # noqa: S102
        tell({"returned": True})
        return
    function = space[case["entry"]]
    for arguments in case["inputs"]:
        tell({"returned": function(*arguments)})


def tell(
    record: Record, dumps: Callable[..., str] = json.dumps, write: Callable[..., int] = os.write
) -> None:
    """One line to the parent; a value that JSON cannot say is told by its kind."""
    try:
        line = dumps(record, allow_nan=False)
    except BaseException as error:  # noqa: BLE001  whatever the value's own methods raise
        line = dumps({"raised": f"{type(error).__name__} in the value returned"})
    data = line.encode() + b"\n"
    while data:
        data = data[write(RESULTS, data) :]


def undumpable() -> None:
    """Nobody may look into this process, nor attach to it."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def no_new_privileges() -> None:
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS


def send(record: Record) -> None:
    data = json.dumps(record).encode()
    data = struct.pack(">I", len(data)) + data
    while data:
        data = data[os.write(1, data) :]


def receive() -> Record | None:
    """The next case, or None at the end."""
    head = exactly(4)
    if head is None:
        return None
    body = exactly(struct.unpack(">I", head)[0])
    if body is None:
        return None
    found: Record = json.loads(body)
    return found


def exactly(count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        piece = os.read(0, count - len(data))
        if not piece:
            return None
        data += piece
    return data


if __name__ == "__main__":
    main()
