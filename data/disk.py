"""Room on the file system that holds the home: how much is left, and which errors say none.

A small spare file is kept in the home. It is given up when the disk is full, so that what was under
way can still be settled and said.
"""

import contextlib
import errno
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from data.files import write_durable

SPARE_BYTES = 1024 * 1024
SQLITE_SIGNS = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


@dataclass(kw_only=True, slots=True, frozen=True)
class Room:
    """Bytes of a file system: all of them, and those that are free for us."""

    total: int
    used: int
    free: int

    @property
    def used_share(self) -> float:
        """How full it is, from 0 to 1; what is reserved for the system's owner does not count."""
        return self.used / max(1, self.used + self.free)

    def __str__(self) -> str:
        return f"{_size(self.free)} free of {_size(self.total)}"


def room(folder: Path) -> Room:
    """The room where `folder` is."""
    total, used, free = shutil.disk_usage(folder)
    return Room(total=total, used=used, free=free)


def is_full(error: BaseException) -> bool:
    """Whether an error, the system's, the database's or a library's, says that the disk is full."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
    if code is not None:
        return code in SQLITE_SIGNS
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    # Rust libraries put the system's number into the text.
    return type(error).__name__ == "SafetensorError" and f"os error {errno.ENOSPC}" in str(error)


def keep_spare(folder: Path) -> None:
    """Have the spare file in `folder`, unless there is no room for it."""
    path = folder / "spare"
    if not path.exists():
        with contextlib.suppress(OSError):
            write_durable(path, bytes(SPARE_BYTES))


def give_up_spare(folder: Path) -> bool:
    """Free the room of the spare file; False when it was given up before."""
    try:
        (folder / "spare").unlink()
    except FileNotFoundError:
        return False
    return True


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
