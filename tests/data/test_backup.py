"""A backup opens, is whole and consistent, also under load, and shows when it is not complete."""

import json
import signal
import stat
import threading
from pathlib import Path

import pytest
from sqlmodel import Session

from data.backup import BackupFailed, back_up
from data.files import verify_manifest
from data.home import Home
from data.restore import restore
from data.store import Store
from data.tables import Event, LedgerEntry
from tests.data.filled_home import ask, child, filled_home

BACKUPS_UNDER_LOAD = 20


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return filled_home(tmp_path / "home")


def test_a_backup_holds_what_cannot_be_made_again_and_shows_that_it_is_complete(
    home: Home,
) -> None:
    backup = back_up(home, home.backups)
    assert backup.folder.parent == home.backups and backup.schema > 1 and backup.seconds > 0
    verify_manifest(backup.folder)
    names = {p.relative_to(backup.folder).as_posix() for p in backup.folder.rglob("*.*")}
    assert names >= {
        "pawl.db",
        "blind.key",
        "owner.key",
        "precision-cpu.json",
        "recipes/presets/mine.toml",
        "checkpoints/aaaa/manifest.json",
        "checkpoints/bbbb/manifest.json",
        "manifest.json",
    }
    assert not list(backup.folder.rglob("*.safetensors"))
    about = json.loads((backup.folder / "manifest.json").read_text())["about"]
    assert about["rows"]["checkpoint"] == 2 and not about["with_checkpoints"]
    assert backup.size_bytes == sum(
        path.stat().st_size for path in backup.folder.rglob("*") if path.is_file()
    )


def test_nobody_else_can_read_a_backup(home: Home) -> None:
    folder = back_up(home, home.path.parent / "elsewhere", with_checkpoints=True).folder
    modes = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in [folder, *folder.rglob("*")]
    }
    assert modes == {(True, 0o700), (False, 0o600)}
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_under_write_load_every_backup_opens_is_whole_and_has_equal_counts(home: Home) -> None:
    """Each transaction adds a row to two tables, so a copy of a moment has as many of either."""
    store = Store(home.database)
    over = threading.Event()
    writers = [threading.Thread(target=write_pairs, args=(store, over, n)) for n in range(4)]
    for thread in writers:
        thread.start()
    counts = []
    try:
        for _ in range(BACKUPS_UNDER_LOAD):
            backup = back_up(home, home.backups)
            copy = backup.folder / "pawl.db"
            assert ask(copy, "PRAGMA integrity_check") == [("ok",)]
            events, entries = pairs(copy)
            assert events == entries == backup.rows["event"]
            counts.append(events)
    finally:
        over.set()
        for thread in writers:
            thread.join()
    assert counts[0] < counts[-1] and counts == sorted(counts), "there was no load"
    quiet = back_up(home, home.backups)
    assert pairs(quiet.folder / "pawl.db") == pairs(home.database)
    Store(quiet.folder / "pawl.db").close()
    store.close()


def write_pairs(store: Store, over: threading.Event, number: int) -> None:
    def both(session: Session) -> None:
        session.add(Event(run=f"r{number}", seq=count, kind="message", text="." * 300))
        session.add(LedgerEntry(account="a", kind="settle", category="model", amount=1))

    count = 0
    while not over.is_set():
        count += 1
        store.write(both)


def pairs(database: Path) -> tuple[int, int]:
    (events,) = ask(database, "SELECT count(*) FROM event")[0]
    (entries,) = ask(database, "SELECT count(*) FROM ledgerentry")[0]
    return events, entries


def test_a_home_without_a_database_has_nothing_to_back_up(tmp_path: Path) -> None:
    with pytest.raises(BackupFailed, match="nothing to back up"):
        back_up(Home(path=tmp_path), tmp_path / "backups")
    assert not list(tmp_path.iterdir())


def test_a_backup_that_was_cut_off_is_never_taken_for_one(home: Home) -> None:
    code = (
        "import sys; from pathlib import Path; import data.backup as b; from data.home import Home;"
        "b.write_manifest = lambda *a: __import__('os').kill(__import__('os').getpid(), 9);"
        "b.back_up(Home(path=Path(sys.argv[1])), Path(sys.argv[1]) / 'backups')"
    )
    assert child(code, str(home.path)) == -signal.SIGKILL
    (left,) = home.backups.iterdir()
    assert ".tmp-" in left.name
    with pytest.raises(BackupFailed, match="never finished"):
        restore(home, left)
