"""Restoring a backup: checked whole, staged beside the home, then put in place in one go."""

import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data.backup import BackupFailed, copy_private
from data.files import read_manifest, verify_manifest
from data.home import Home, HomeLock
from data.migrations import refuse_newer
from data.snapshot import check_database, connect_frozen
from data.swap import finish_swap, incoming


@dataclass(kw_only=True, slots=True)
class Restored:
    """What a restore did. `missing`: checkpoints that the database lists and the disk lacks."""

    made: str | None  # when the backup was made; None for the copy of a database alone
    schema: int
    kept: Path | None  # the folder with what was in the home before
    seconds: float = 0.0
    missing: list[str] = field(default_factory=list)


def restore(home: Home, source: Path) -> Restored:
    """Put a backup's content into a home that no server holds (HomeHeld otherwise).

    `source` is a backup's folder, or a database file that an update left in `backups/`. BackupFailed,
    SnapshotFailed or NewerDatabase before anything is touched. Cut off anywhere, the home is as it
    was, or as the backup says once the next start has gone on. The home's own checkpoints stay.
    """
    began = time.monotonic()
    made = _check(source)
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = HomeLock(home)
    try:
        with incoming(home.path) as new:
            _stage(source, new, home)
            schema = check_database(new / home.database.name)
            refuse_newer(schema)
            if not schema:
                raise BackupFailed(f"{source} is a database, but not one of Pawl's")
        kept = finish_swap(home.path)  # from here on the next start would do it
        missing = _missing(home)
    finally:
        lock.release()
    seconds = time.monotonic() - began
    return Restored(made=made, schema=schema, kept=kept, seconds=seconds, missing=missing)


def _check(source: Path) -> str | None:
    """When the backup was made; BackupFailed unless every file is as its manifest says."""
    if source.is_file() and source.suffix == ".db":
        return None
    if not source.is_dir():
        raise BackupFailed(f"{source} is no folder: name one that python3 run.py backup has made")
    try:
        verify_manifest(source)
        about: dict[str, Any] = read_manifest(source)["about"]
    except (ValueError, OSError) as error:
        raise BackupFailed(f"{error}: this backup is not complete, take another one") from None
    if about.get("kind") != "backup" or not (source / "pawl.db").is_file():
        raise BackupFailed(f"{source} is complete, but not a backup of a home")
    return str(about["made"])


def _stage(source: Path, new: Path, home: Home) -> None:
    if source.is_file():
        copy_private(source, new / home.database.name)
        return
    for path in sorted(
        [source / "pawl.db", *source.glob("*.key"), *source.glob("precision-*.json")]
    ):
        copy_private(path, new / path.name)
    (new / "recipes").mkdir(mode=0o700)
    for path in source.glob("recipes/**/*"):
        if path.is_file():
            copy_private(path, new / path.relative_to(source))
    for folder in source.glob("checkpoints/*/"):
        if _is_whole(folder) and not _is_whole(home.checkpoints / folder.name):
            for path in folder.iterdir():
                copy_private(path, new / "checkpoints" / folder.name / path.name)


def _is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint's weights are there, and as its manifest says."""
    try:
        verify_manifest(checkpoint)
    except ValueError:
        return False
    return True


def _missing(home: Home) -> list[str]:
    """Checkpoints of the database whose folder is not on disk, or not as its manifest says."""
    connection = connect_frozen(home.database)
    connection.row_factory = sqlite3.Row
    try:
        rows = [dict(row) for row in connection.execute("SELECT * FROM checkpoint ORDER BY id")]
    finally:
        connection.close()
    # A backup may be of a schema that knows no deleted_at.
    listed = [row["id"] for row in rows if row.get("deleted_at") is None]
    return [name for name in listed if not _is_whole(home.checkpoints / name)]
