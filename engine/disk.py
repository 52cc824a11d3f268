"""What the engine does about a full disk: begin nothing there, and still settle what is open."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from data.disk import give_up_spare, is_full, keep_spare, room
from engine.errors import DiskFull

if TYPE_CHECKING:  # the worker comes here too, and has no database
    from sqlmodel import Session

    from data.store import Store

Found = TypeVar("Found")

FULLEST = 0.95  # from here on nothing new begins
LEAST_BYTES = 200_000_000  # nor below this


def check_room(folder: Path, least_bytes: int) -> None:
    """DiskFull when a phase should not begin: over 95 % used, or less than `least_bytes` free."""
    found = room(folder)
    if found.used_share > FULLEST or found.free < least_bytes:
        raise disk_full(folder)
    keep_spare(folder)


def disk_full(folder: Path) -> DiskFull:
    """The error with its text: which folder, how much room, what to do."""
    found = room(folder)
    share = "full" if found.used_share > 0.99 else f"{found.used_share:.0%} full"
    return DiskFull(f"the disk is {share}: {folder} has {found}: free some space, then resume")


def write_surely(store: "Store", change: "Callable[[Session], Found]") -> Found:
    """Write what settles something; on a full disk the spare file makes room for it, once."""
    try:
        return store.write(change)
    except Exception as error:
        if not is_full(error) or not give_up_spare(store.path.parent):
            raise
        return store.write(change)
