"""Whose a container is: its label names the home folder and the process that made it."""

import hashlib
import os
from pathlib import Path


def instance_of(home: Path) -> str:
    """What this process writes on the containers that it makes: HOME-PID-START."""
    return f"{mark(home)}-{os.getpid()}-{_started(os.getpid())}"


def is_left_behind(instance: str, home: Path) -> bool:
    """Whether a container with this label is of this home and of a process that has ended.

    A label that another home or nobody of ours has written is never left behind.
    """
    home_mark, _, process = instance.partition("-")
    pid, _, started = process.partition("-")
    if home_mark != mark(home) or not pid.isdigit():
        return False
    return instance != instance_of(home) and _started(int(pid)) != started


def mark(home: Path) -> str:
    """16 hex digits for a home folder: another folder that takes its place is another home."""
    number = home.stat().st_ino if home.exists() else 0
    text = f"{home.resolve()} {number}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _started(pid: int) -> str:
    """When a process began, in clock ticks after the machine's start; "" when there is none.

    A number alone may by now be another process. Without /proc there is the number alone.
    """
    if not os.path.isdir("/proc/self"):
        return "0" if _exists(pid) else ""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
