"""Backups: what cannot be made again, in one folder that shows whether it is complete."""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from data.files import MANIFEST, publish, verify_manifest, write_manifest
from data.home import Home
from data.snapshot import DatabaseRefused, check_database, count_rows, stamp, take_snapshot
from data.swap import is_pending
from data.tables import now

LOOSE_FILES = ("blind.key", "owner.key", "precision-*.json")


class BackupFailed(DatabaseRefused):
    """A backup could not be made or read; the text says what to do."""


@dataclass(kw_only=True, slots=True)
class Backup:
    """A finished backup: where, how large, how long it took, rows by table.

    `left_out` names checkpoints whose files were not as their manifest says.
    """

    folder: Path
    schema: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)
    checkpoints: int = 0
    left_out: list[str] = field(default_factory=list)


def back_up(home: Home, into: Path, with_checkpoints: bool = False) -> Backup:
    """Copy a home into a new folder below `into`, also while its server works.

    The database is copied first, so that what its rows name is on disk; of checkpoints the
    manifests go along, their weights when asked. Files are 0600, folders 0700, the manifest with
    sizes and SHA-256 comes last.
    """
    began = time.monotonic()
    _check_source(home)
    aside = into / f"{stamp()}.tmp-{secrets.token_hex(4)}"
    backup = Backup(folder=into / aside.name.partition(".tmp-")[0])
    try:
        into.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside.mkdir(mode=0o700)
        _fill(home, aside, backup, with_checkpoints)
        backup.size_bytes = _seal(aside, backup, with_checkpoints)
        publish(aside, backup.folder)
    except OSError as error:
        raise BackupFailed(
            f"no backup was made in {into}: {error.strerror or error}; "
            "free some space there, or choose another folder with --to"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    backup.seconds = time.monotonic() - began
    return backup


def _check_source(home: Home) -> None:
    if not home.database.is_file():
        raise BackupFailed(
            f"{home.path} has no database yet: nothing to back up (--home, PAWL_HOME)"
        )
    if is_pending(home.path):
        raise BackupFailed(
            f"a restore of {home.path} was cut off: start python3 run.py once, which ends it"
        )


def _fill(home: Home, aside: Path, backup: Backup, with_checkpoints: bool) -> None:
    copy = aside / home.database.name
    take_snapshot(home.database, copy)
    backup.schema, backup.rows = check_database(copy), count_rows(copy)
    for name, source in _files_of(home):
        copy_private(source, aside / name)
    for folder in sorted(home.checkpoints.glob("*/")):
        if ".tmp-" not in folder.name and (folder / MANIFEST).is_file():
            backup.checkpoints += 1
            _copy_checkpoint(folder, aside / "checkpoints" / folder.name, backup, with_checkpoints)


def _files_of(home: Home) -> Iterator[tuple[str, Path]]:
    """Secrets, measurements and a person's own recipes, with their names below the home."""
    for pattern in LOOSE_FILES:
        yield from ((path.name, path) for path in home.path.glob(pattern))
    for path in sorted(home.recipes.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(home.path).as_posix(), path


def _copy_checkpoint(source: Path, target: Path, backup: Backup, whole: bool) -> None:
    """The manifest, or every file of it; a folder that is damaged or just went is left out."""
    try:
        for path in sorted(source.rglob("*")) if whole else [source / MANIFEST]:
            if path.is_file():
                copy_private(path, target / path.relative_to(source))
        if whole:
            verify_manifest(target)
    except (ValueError, FileNotFoundError):
        shutil.rmtree(target, ignore_errors=True)
        backup.left_out.append(source.name)


def _seal(aside: Path, backup: Backup, with_checkpoints: bool) -> int:
    """Write the manifest and close the folder to others; the bytes of everything in it."""
    about = {
        "kind": "backup",
        "made": now(),
        "schema": backup.schema,
        "rows": backup.rows,
        "with_checkpoints": with_checkpoints,
    }
    write_manifest(aside, about)
    for path in [aside, *aside.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    return sum(path.stat().st_size for path in aside.rglob("*") if path.is_file())


def copy_private(source: Path, target: Path) -> None:
    """Copy the bytes of one file, readable by its owner alone from the start."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(source, "rb") as here, os.fdopen(descriptor, "wb") as there:
        shutil.copyfileobj(here, there, 1024 * 1024)
