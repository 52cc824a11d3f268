"""An older database is copied, updated and as good as a new one, wherever a start was cut off."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import select

from data import migrations
from data.migrations import MIGRATIONS, MigrationFailed
from data.snapshot import SnapshotFailed
from data.store import Store
from data.tables import (
    SCHEMA_VERSION,
    Checkpoint,
    Directive,
    Event,
    GatewayModel,
    ModelCall,
    Run,
    User,
)
from tests.mounted import mounted

FIRST = Path(__file__).parent / "schema-1.sql"
STATEMENTS = len(list(MIGRATIONS[2]))
LATER = len(list(MIGRATIONS[3]))
CALLS = """
INSERT INTO reservation VALUES(1,'prj_local','sums','model','["run:sums"]',70,70,'uncertain','x','t','t');
INSERT INTO modelcall (id, project_id, run, round, step, call_key, attempt, role, model, simulated,
    request_hash, reservation, status, usage, price, cost, started_at) VALUES
    (1,'prj_local','sums',1,'plan','k',1,'operator','sim/operator',1,'h',1,'uncertain','{}','{}',NULL,'t'),
    (2,'prj_local','sums',1,'plan','k',2,'operator','sim/operator',1,'h',NULL,'answered','{}','{}',50,'t');
"""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A database of schema 1 with a few rows."""
    path = tmp_path / "pawl.db"
    with sqlite3.connect(path) as db:
        db.executescript(FIRST.read_text())
    db.close()
    return path


@pytest.fixture
def second(older: Path) -> Path:
    """The same database at schema 2, with a paid call that was answered at its second attempt."""
    with sqlite3.connect(older) as db:
        for statement in MIGRATIONS[2]:
            db.execute(statement)
        db.executescript(f"{CALLS} PRAGMA user_version=2;")
    db.close()
    return older


def ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    db = sqlite3.connect(path)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def schema(path: Path) -> int:
    return int(ask(path, "PRAGMA user_version")[0][0])


def shape(path: Path) -> dict[str, Any]:
    """Tables with columns, foreign keys and indexes, whatever their order and their spelling."""
    names = [row[0] for row in ask(path, "SELECT name FROM sqlite_master WHERE type='table'")]
    return {name: (columns(path, name), links(path, name), indexes(path, name)) for name in names}


def columns(path: Path, table: str) -> set[tuple[Any, ...]]:
    return {row[1:] for row in ask(path, f'PRAGMA table_info("{table}")')}


def links(path: Path, table: str) -> set[tuple[Any, ...]]:
    return {row[2:] for row in ask(path, f'PRAGMA foreign_key_list("{table}")')}


def indexes(path: Path, table: str) -> set[tuple[Any, ...]]:
    found = set()
    for _, name, unique, origin, partial in ask(path, f'PRAGMA index_list("{table}")'):
        on = tuple(row[2] for row in ask(path, f'PRAGMA index_info("{name}")'))
        found.add((name if origin == "c" else origin, unique, partial, on))
    return found


def copies(home: Path) -> list[Path]:
    return sorted((home / "backups").glob("before-schema-*.db"))


def test_an_updated_database_has_the_shape_of_a_new_one(older: Path, tmp_path: Path) -> None:
    Store(older).close()
    fresh = tmp_path / "new.db"
    Store(fresh).close()
    assert schema(older) == schema(fresh) == SCHEMA_VERSION
    assert max(MIGRATIONS) == SCHEMA_VERSION
    assert shape(older) == shape(fresh)


def test_what_was_there_is_still_there_and_can_be_read(older: Path) -> None:
    store = Store(older)
    with store.read() as session:
        assert {run.id: run.state for run in session.exec(select(Run))} == {
            "sums": "finished",
            "half-done": "paused",
        }
        assert session.get_one(Run, "sums").config == {"train_from": "base"}
        checkpoint = session.get_one(Checkpoint, "0123456789abcdef")
        assert (checkpoint.training, checkpoint.deleted_at) == ({"steps": 20}, None)
        assert [event.seq for event in session.exec(select(Event))] == [1, 2, 3]
        assert session.get_one(User, "owner").signed_in_at is None
    store.close()


def test_calls_of_schema_2_say_whether_their_cost_is_known(second: Path, tmp_path: Path) -> None:
    store = Store(second)
    with store.read() as session:
        calls = {call.id: (call.uncertain, call.cost) for call in session.exec(select(ModelCall))}
        model = session.get_one(GatewayModel, "sim/operator")
    store.close()
    assert calls == {1: (True, 70), 2: (False, 50)}
    assert (model.local, model.tiers, model.key_file, model.blocked) == (False, [], None, None)
    Store(tmp_path / "new.db").close()
    assert shape(second) == shape(tmp_path / "new.db")


def test_an_older_database_is_copied_first_and_a_new_one_is_not(
    older: Path, tmp_path: Path
) -> None:
    Store(older).close()
    (copy,) = copies(tmp_path)
    assert schema(copy) == 1
    assert ask(copy, "SELECT count(*) FROM event") == [(3,)]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    Store(older).close()
    assert copies(tmp_path) == [copy]
    (tmp_path / "fresh").mkdir()
    Store(tmp_path / "fresh" / "pawl.db").close()
    assert not (tmp_path / "fresh" / "backups").exists()


def test_the_last_three_copies_are_kept_and_what_was_cut_off_is_not(
    older: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    days = ("20250101", "20250102", "20250103")
    for number, day in zip((9, 10, 11), days, strict=True):
        (folder / f"before-schema-{number}-{day}T000000.000Z.db").touch()
    (folder / "before-schema-2-20250103T000000.000Z.db.tmp-0a0b").touch()
    (folder / "20250101T000000.000Z").mkdir()
    Store(older).close()
    kept = {path.name.split("-")[2] for path in copies(tmp_path)}
    assert kept == {"10", "11", "2"}
    assert not list(folder.glob("*.tmp-*")) and (folder / "20250101T000000.000Z").is_dir()


CHILD = """
import os, signal, sys
from pathlib import Path
from data import migrations
from data.store import Store

def dying(statements, at):
    for number, statement in enumerate(statements):
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)
        yield statement
    os.kill(os.getpid(), signal.SIGKILL)

schema = int(sys.argv[3])
migrations.MIGRATIONS[schema] = dying(migrations.MIGRATIONS[schema], int(sys.argv[2]))
Store(Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("to", "statement"),
    [*((2, number) for number in range(STATEMENTS + 1)), (3, 0), (3, LATER // 2), (3, LATER)],
)
def test_killed_between_two_statements_the_next_start_works_by_itself(
    older: Path, to: int, statement: int
) -> None:
    root = Path(migrations.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(older), str(statement), str(to)],
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = Store(older)
    with store.read() as session:
        assert session.get_one(Run, "sums").state == "finished"
    store.close()
    assert schema(older) == SCHEMA_VERSION
    assert ask(older, "PRAGMA integrity_check") == [("ok",)]
    assert len(copies(older.parent)) == 2  # of the killed start, and of this one


def test_a_failing_migration_leaves_the_database_as_it_was(
    older: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shape(older)
    monkeypatch.setitem(MIGRATIONS, 2, [*MIGRATIONS[2], "INSERT INTO nothing VALUES (1)"])
    with pytest.raises(MigrationFailed, match="a copy from before is .*before-schema-2"):
        Store(older)
    assert (schema(older), shape(older)) == (1, before)
    monkeypatch.undo()
    Store(older).close()
    assert schema(older) == SCHEMA_VERSION


def test_a_migration_that_would_break_a_reference_is_undone(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MIGRATIONS, 2, ["DELETE FROM harness"])
    with pytest.raises(MigrationFailed, match="version points at nothing in harness"):
        Store(older)
    assert ask(older, "SELECT count(*) FROM harness") == [(1,)]


def test_tables_that_an_interrupted_rebuild_left_are_dropped(older: Path) -> None:
    with sqlite3.connect(older) as db:
        db.execute("CREATE TABLE migrating_event (id INTEGER)")
    db.close()
    Store(older).close()
    assert "migrating_event" not in shape(older)


def test_foreign_keys_hold_again_after_an_update(older: Path) -> None:
    store = Store(older)
    of_nobody = Directive(id="d", project_id="p", run="nobody", text="x", author="owner")
    with pytest.raises(IntegrityError, match="FOREIGN KEY"):
        store.write(lambda s: s.add(of_nobody))
    store.close()


def test_without_room_for_the_copy_nothing_is_touched(older: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "2m") as disk:
        database = disk / "pawl.db"
        database.write_bytes(older.read_bytes())
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(shutil.disk_usage(disk).free - 90_000))
        with pytest.raises(SnapshotFailed, match="free some space"):
            Store(database)
        assert schema(database) == 1
        assert not list((disk / "backups").iterdir())
        ballast.unlink()
        Store(database).close()
        assert schema(database) == SCHEMA_VERSION
