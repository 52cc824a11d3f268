"""The schema's version: a new database is made whole, an older one updated, a newer one refused."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlalchemy import Engine as Database
from sqlmodel import SQLModel

from data.snapshot import DatabaseRefused, stamp, table_names, take_snapshot
from data.tables import SCHEMA_VERSION

KEPT = 3  # automatic backups
STALE = "migrating_"  # how a migration names the new form of a table that it has to rebuild

# What leads to each schema from the one before. Written once: it names no table class, since those
# show the present. Foreign keys are off meanwhile and checked before the commit.
MIGRATIONS: dict[int, Iterable[str]] = {
    2: (
        'ALTER TABLE "user" ADD COLUMN signed_in_at VARCHAR',
        "ALTER TABLE apikey ADD COLUMN made_by VARCHAR",
        "ALTER TABLE apikey ADD COLUMN user_id VARCHAR",
        "ALTER TABLE checkpoint ADD COLUMN deleted_at VARCHAR",
        "ALTER TABLE control ADD COLUMN after_round INTEGER",
        "ALTER TABLE run ADD COLUMN start_after VARCHAR",
        """CREATE TABLE failedsignin (
            subject VARCHAR NOT NULL PRIMARY KEY,
            failures INTEGER NOT NULL,
            last_at VARCHAR NOT NULL)""",
        """CREATE TABLE cligrant (
            id VARCHAR NOT NULL PRIMARY KEY,
            key_hash VARCHAR NOT NULL UNIQUE,
            poll_hash VARCHAR NOT NULL,
            code_hash VARCHAR NOT NULL,
            address VARCHAR NOT NULL,
            status VARCHAR NOT NULL,
            attempts INTEGER NOT NULL,
            workspace_id VARCHAR,
            project_id VARCHAR,
            created_at VARCHAR NOT NULL,
            expires_at VARCHAR NOT NULL)""",
    ),
    3: (
        "ALTER TABLE gatewaymodel ADD COLUMN key_file VARCHAR",
        "ALTER TABLE gatewaymodel ADD COLUMN local BOOLEAN DEFAULT 0 NOT NULL",
        "ALTER TABLE gatewaymodel ADD COLUMN tiers JSON DEFAULT '[]' NOT NULL",
        "ALTER TABLE gatewaymodel ADD COLUMN blocked VARCHAR",
        "ALTER TABLE modelcall ADD COLUMN max_tokens INTEGER",
        "ALTER TABLE modelcall ADD COLUMN uncertain BOOLEAN DEFAULT 0 NOT NULL",
        # Whatever had no answer was charged whole, and its cost stood in the reservation alone.
        """UPDATE modelcall SET uncertain = 1, cost =
            (SELECT actual FROM reservation WHERE reservation.id = modelcall.reservation)
            WHERE status = 'uncertain'""",
        "CREATE INDEX job_created_at ON job (created_at)",
        "CREATE INDEX ledgerentry_account_at ON ledgerentry (account, at)",
        "CREATE INDEX modelcall_run_round_role ON modelcall (run, round, role)",
        "CREATE INDEX modelcall_run_started ON modelcall (run, started_at)",
        "CREATE INDEX modelcall_project_started ON modelcall (project_id, started_at)",
        "CREATE INDEX modelcall_reservation ON modelcall (reservation)",
        "CREATE INDEX modelcall_status ON modelcall (status)",
    ),
    4: (
        "ALTER TABLE checkpoint ADD COLUMN name VARCHAR",
        "ALTER TABLE evaluation ADD COLUMN job VARCHAR",
        "CREATE INDEX ix_evaluation_job ON evaluation (job)",
        "ALTER TABLE lease ADD COLUMN job VARCHAR",
        "ALTER TABLE live ADD COLUMN first_done INTEGER",
        "ALTER TABLE live ADD COLUMN first_at VARCHAR",
        """CREATE TABLE jobcontrol (
            id INTEGER NOT NULL PRIMARY KEY,
            project_id VARCHAR NOT NULL,
            job VARCHAR NOT NULL REFERENCES job (id),
            "action" VARCHAR NOT NULL,
            author VARCHAR NOT NULL,
            status VARCHAR NOT NULL,
            created_at VARCHAR NOT NULL,
            done_at VARCHAR)""",
        "CREATE INDEX ix_jobcontrol_job ON jobcontrol (job)",
        """CREATE TABLE endpointuse (
            id INTEGER NOT NULL PRIMARY KEY,
            project_id VARCHAR NOT NULL,
            job VARCHAR NOT NULL,
            hour VARCHAR NOT NULL,
            actor VARCHAR NOT NULL,
            kind VARCHAR NOT NULL,
            status VARCHAR NOT NULL,
            calls INTEGER NOT NULL,
            tokens_in INTEGER NOT NULL,
            tokens_out INTEGER NOT NULL,
            seconds FLOAT NOT NULL,
            last_at VARCHAR NOT NULL,
            UNIQUE (job, hour, actor, kind, status))""",
    ),
}


class NewerDatabase(DatabaseRefused):
    """The database was written by a newer Pawl."""


class MigrationFailed(DatabaseRefused):
    """An older database could not be updated; nothing half done was kept."""


def migrate(db: Database) -> None:
    """Make the tables of a new database, or update an older one after a copy of it was taken.

    Each migration is one transaction together with its version, so that a start that was cut off
    anywhere goes on at the next one. SnapshotFailed when there is no room for the copy.
    """
    with _plain(db) as connection:
        found = schema_of(connection)
        refuse_newer(found)
        if 0 < found < SCHEMA_VERSION:
            copy = _back_up(_path(db), found)
            _update(connection, found, copy)
    if found == 0:
        with db.begin() as transaction:
            SQLModel.metadata.create_all(transaction)
            transaction.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")


def schema_of(connection: sqlite3.Connection) -> int:
    """The schema that a database says it has; 0 for a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(found: int) -> None:
    """NewerDatabase when this Pawl is too old for a schema."""
    if found > SCHEMA_VERSION:
        raise NewerDatabase(
            f"the database has schema {found}, this Pawl knows {SCHEMA_VERSION}: update Pawl"
        )


def _update(connection: sqlite3.Connection, found: int, copy: Path) -> None:
    connection.execute("PRAGMA foreign_keys=OFF")  # has no effect inside a transaction
    try:
        for schema in range(found + 1, SCHEMA_VERSION + 1):
            _step(connection, schema)
    except sqlite3.Error as error:
        raise MigrationFailed(
            f"the database of schema {found} could not be updated to {SCHEMA_VERSION}: {error}; "
            f"nothing of that was kept, and a copy from before is {copy}"
        ) from error
    finally:
        connection.execute("PRAGMA foreign_keys=ON")


def _step(connection: sqlite3.Connection, schema: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for name in table_names(connection):
            if name.startswith(STALE):
                connection.execute(f'DROP TABLE "{name}"')
        for statement in MIGRATIONS[schema]:
            connection.execute(statement)
        if broken := connection.execute("PRAGMA foreign_key_check").fetchone():
            raise sqlite3.IntegrityError(f"a row of {broken[0]} points at nothing in {broken[2]}")
        connection.execute(f"PRAGMA user_version={schema}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _back_up(database: Path, found: int) -> Path:
    """A copy of an older database; the newest few are kept, and nothing that was cut off."""
    folder = database.parent / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    for cut_off in folder.glob("before-schema-*.tmp-*"):
        cut_off.unlink()
    copy = folder / f"before-schema-{found + 1}-{stamp()}.db"
    take_snapshot(database, copy)
    copies = sorted(folder.glob("before-schema-*.db"), key=lambda path: path.stem.split("-")[-1])
    for old in copies[:-KEPT]:
        old.unlink()
    return copy


@contextlib.contextmanager
def _plain(db: Database) -> Iterator[sqlite3.Connection]:
    """The driver's own connection, on which transactions begin and end where they are written."""
    pooled = db.raw_connection()
    try:
        connection = pooled.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        yield connection
    except BaseException:
        pooled.invalidate()  # nobody goes on with this database
        raise
    finally:
        pooled.close()


def _path(db: Database) -> Path:
    assert db.url.database is not None
    return Path(db.url.database)
