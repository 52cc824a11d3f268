"""Copies of the database: taken in one moment, checked, and put in place whole."""

import os
import secrets
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from data.files import fsync_folder


class DatabaseRefused(Exception):
    """The database cannot be used as it is; the text says why and what to do."""


class SnapshotFailed(DatabaseRefused):
    """The database could not be copied, or the copy is damaged; the text says what to do."""


def take_snapshot(database: Path, target: Path) -> None:
    """Copy a database to `target` (0600) as it is at one moment, also beside a busy server.

    The copy is checked for integrity, synced and then renamed, so that `target` is never a part.
    """
    aside = target.with_name(f"{target.name}.tmp-{secrets.token_hex(4)}")
    os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        _copy(database, aside)
        check_database(aside)
        _fsync(aside)
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
    fsync_folder(target.parent)


def check_database(path: Path) -> int:
    """The schema of a database file that nobody writes; SnapshotFailed when it is damaged."""
    try:
        connection = connect_frozen(path)
        try:
            said = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
            schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
        finally:
            connection.close()
    except sqlite3.Error as error:
        said, schema = [str(error)], 0
    if said != ["ok"]:
        raise SnapshotFailed(
            f"{path} is damaged ({'; '.join(said)}): restore a backup (python3 run.py restore)"
        )
    return schema


def stamp() -> str:
    """The present moment for a file's name, such as 20260105T080000.123Z; names sort by time."""
    moment = datetime.now(UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03}Z"


def count_rows(path: Path) -> dict[str, int]:
    """How many rows each table of a database file has that nobody writes."""
    connection = connect_frozen(path)
    try:
        return {
            name: int(connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])
            for name in table_names(connection)
        }
    finally:
        connection.close()


def table_names(connection: sqlite3.Connection) -> list[str]:
    """The tables of a database, without SQLite's own."""
    query = "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite%'"
    return sorted(row[0] for row in connection.execute(query))


def connect_frozen(path: Path) -> sqlite3.Connection:
    """A connection to a file that does not change: nothing is locked, nothing laid beside it."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)


def _copy(database: Path, target: Path) -> None:
    # A reader, since two connections that write may not be open at once; and not query_only, under
    # which SQLite refuses VACUUM INTO although the source stays as it is.
    connection = sqlite3.connect(
        f"file:{quote(str(database))}?mode=ro", uri=True, isolation_level=None, timeout=30
    )
    try:
        connection.execute("VACUUM INTO ?", (str(target),))
    except sqlite3.Error as error:
        raise SnapshotFailed(
            f"{database} could not be copied to {target.parent}: {error}; "
            "free some space there, or restore a backup when the database is damaged"
        ) from None
    finally:
        connection.close()


def _fsync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
