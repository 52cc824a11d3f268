"""Putting a restored home in place: all of it or nothing of it, wherever it is cut off.

What is to come lies in `restoring/new` once it is complete; from then on the way leads forward
alone. Whoever takes the home's lock first goes it to its end.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data.files import fsync_folder, publish
from data.snapshot import stamp

PENDING = "restoring"
OPEN_PARTS = ("-wal", "-shm")  # what SQLite lays beside a database, and would read into another one


@contextmanager
def incoming(home: Path) -> Iterator[Path]:
    """An empty folder to fill with what is to come; complete when the block ends well."""
    aside = home / f"{PENDING}.tmp-{secrets.token_hex(4)}"
    new = aside / "new"
    new.mkdir(parents=True, mode=0o700)
    try:
        yield new
        publish(aside, home / PENDING)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def finish_swap(home: Path) -> Path | None:
    """Put in place what is complete; the folder `before-restore-...` with what was there before.

    None when nothing was waiting. The holder of the home's lock alone may call this.
    """
    for unfinished in home.glob(f"{PENDING}.tmp-*"):
        shutil.rmtree(unfinished)
    pending = home / PENDING
    if not pending.is_dir():
        return None
    new, old = pending / "new", pending / "old"
    old.mkdir(mode=0o700, exist_ok=True)
    for name in _names(new):
        _exchange(home, new, old, name)
    kept = home / f"before-restore-{stamp()}" if any(old.iterdir()) else None
    if kept:
        os.rename(old, kept)
    spent = home / f"{PENDING}.tmp-{secrets.token_hex(4)}"
    os.rename(pending, spent)
    fsync_folder(home)
    shutil.rmtree(spent)
    return kept


def is_pending(home: Path) -> bool:
    """Whether a restore was cut off, so that what lies in the home is partly old, partly new."""
    return (home / PENDING).exists()


def _names(new: Path) -> list[str]:
    """What is exchanged as one: each checkpoint by itself, everything else by its top name."""
    top = sorted(path.name for path in new.iterdir() if path.name != "checkpoints")
    return [*top, *sorted(f"checkpoints/{path.name}" for path in new.glob("checkpoints/*"))]


def _exchange(home: Path, new: Path, old: Path, name: str) -> None:
    """Keep what has this name in `old`, then put the new one in its place."""
    target, kept = home / name, old / name
    target.parent.mkdir(mode=0o700, exist_ok=True)
    if name == "pawl.db":
        for part in OPEN_PARTS:
            if (beside := home / f"{name}{part}").exists():
                os.rename(beside, old / beside.name)
    if target.exists() and not kept.exists():
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        _keep(target, kept)
    fsync_folder(old)
    os.replace(new / name, target)
    fsync_folder(target.parent)


def _keep(target: Path, kept: Path) -> None:
    if target.is_dir():
        os.rename(target, kept)
    else:
        os.link(target, kept)  # so that there is a file of this name at every moment
    fsync_folder(kept.parent)
