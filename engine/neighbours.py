"""Other people's processes: whose they are and what memory they hold. None is ever ended."""

import os
import pwd
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
NAMED = 3  # neighbours that a sentence names
ANCESTORS = 64  # more parents than any process has: ends a walk through a table that changes


@dataclass(kw_only=True, slots=True, frozen=True)
class Neighbour:
    """A process of somebody else. `bytes` is what it holds of a device, None when nobody tells."""

    pid: int
    owner: str | None  # None where the process cannot be seen, as from inside a container
    command: str | None
    bytes: int | None

    def __str__(self) -> str:
        held = f" with {self.bytes / 1e9:.1f} GB" if self.bytes is not None else ""
        owner = f" of {self.owner}" if self.owner else ""
        return f"{self.command or 'a process'}{owner} (pid {self.pid}){held}"


def neighbour(pid: int, held: int | None) -> Neighbour:
    """The process of that number as far as it can be seen."""
    return Neighbour(pid=pid, owner=_owner(pid), command=_command(pid), bytes=held)


def is_ours(pid: int, roots: Container[int]) -> bool:
    """Whether one of `roots` is that process or an ancestor of it."""
    for _ in range(ANCESTORS):
        if pid in roots:
            return True
        parent = _parent(pid)
        if parent is None or parent <= 1:
            return False
        pid = parent
    return False


def largest(ours: Callable[[int], bool], least: int) -> list[Neighbour]:
    """The processes that hold most main memory, at least `least` bytes each, but ours."""
    found = sorted(((held, pid) for pid, held in _resident() if held >= least), reverse=True)
    return [neighbour(pid, held) for held, pid in found if not ours(pid)][:NAMED]


def in_words(neighbours: list[Neighbour]) -> str:
    """The largest of them, for a sentence: "python of ann (pid 812) with 20.1 GB"."""
    by_size = sorted(neighbours, key=lambda one: -(one.bytes or 0))
    more = len(by_size) - NAMED
    told = [str(one) for one in by_size[:NAMED]]
    return ", ".join([*told, f"{more} more"] if more > 0 else told)


def resident(pid: int) -> int:
    """Bytes of main memory that a process holds; 0 when it is not there."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _resident() -> Iterator[tuple[int, int]]:
    for folder in PROC.glob("[0-9]*"):
        yield int(folder.name), resident(int(folder.name))


def _owner(pid: int) -> str | None:
    try:
        number = (PROC / str(pid)).stat().st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # known to another machine or container
        return f"user {number}"


def _command(pid: int) -> str | None:
    """The name of its program; its arguments may hold what is nobody's business."""
    try:
        return (PROC / str(pid) / "comm").read_text().strip() or None
    except OSError:
        return None


def _parent(pid: int) -> int | None:
    try:
        after_name = (PROC / str(pid) / "stat").read_text().rpartition(")")[2]
        return int(after_name.split()[1])
    except (OSError, ValueError, IndexError):
        return None
