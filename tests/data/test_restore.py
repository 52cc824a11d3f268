"""A restore brings everything back or nothing, and is refused before anything is touched."""

import signal
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from data.backup import BackupFailed, back_up
from data.files import verify_manifest, write_manifest
from data.home import Home, HomeHeld, HomeLock, open_home
from data.migrations import NewerDatabase
from data.restore import restore
from data.snapshot import SnapshotFailed
from data.store import Store
from tests.data.filled_home import ask, child, filled_home, python, state, write


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return filled_home(tmp_path / "home")


def test_a_restore_brings_everything_back_and_keeps_what_was_there(home: Home) -> None:
    backup = back_up(home, home.backups)
    write(home, "second")
    (home.recipes / "later.toml").write_text("")
    done = restore(home, backup.folder)
    assert state(home) == {"first"}
    assert not (home.recipes / "later.toml").exists()
    assert done.missing == [] and done.made is not None and done.kept is not None
    kept = Home(path=done.kept)
    assert state(kept) == {"second"} and (kept.recipes / "later.toml").exists()
    assert stat.S_IMODE(home.blind_key.stat().st_mode) == 0o600
    write(home, "third")  # it can be written as ever
    assert ask(home.database, "PRAGMA integrity_check") == [("ok",)]


def test_what_only_the_log_of_the_database_holds_is_kept_and_not_mixed_in(home: Home) -> None:
    """A killed server leaves its last commits in pawl.db-wal."""
    backup = back_up(home, home.backups)
    code = (
        "import os, sys; from pathlib import Path; from data.store import Store;"
        "from data.tables import Setting; s = Store(Path(sys.argv[1]));"
        "s.write(lambda x: x.add(Setting(name='late', value='x'))); os.kill(os.getpid(), 9)"
    )
    assert child(code, str(home.database)) == -signal.SIGKILL
    assert (home.path / "pawl.db-wal").stat().st_size > 0
    kept = restore(home, backup.folder).kept
    assert kept is not None
    late = "SELECT count(*) FROM setting WHERE name='late'"
    assert (ask(home.database, late), ask(kept / "pawl.db", late)) == ([(0,)], [(1,)])
    assert ask(home.database, "PRAGMA integrity_check") == [("ok",)]


def test_a_new_machine_gets_the_whole_home_and_learns_what_is_missing(
    home: Home, tmp_path: Path
) -> None:
    (home.checkpoints / "bbbb" / "adapter_model.safetensors").write_bytes(b"cut")
    backup = back_up(home, tmp_path / "usb", with_checkpoints=True)
    assert backup.left_out == ["bbbb"] and backup.checkpoints == 2
    other = Home(path=tmp_path / "other")
    done = restore(other, backup.folder)
    assert state(other) == {"first"}
    assert (done.missing, done.kept) == (["bbbb"], None)
    verify_manifest(other.checkpoints / "aaaa")
    assert stat.S_IMODE(other.path.stat().st_mode) == 0o700
    bare = restore(Home(path=tmp_path / "bare"), back_up(home, tmp_path / "usb").folder)
    assert bare.missing == ["aaaa", "bbbb"]


def test_a_damaged_checkpoint_is_mended_by_a_restore(home: Home) -> None:
    backup = back_up(home, home.backups, with_checkpoints=True)
    (home.checkpoints / "aaaa" / "adapter_model.safetensors").write_bytes(b"cut")
    done = restore(home, backup.folder)
    verify_manifest(home.checkpoints / "aaaa")
    assert done.kept is not None and (done.kept / "checkpoints" / "aaaa").is_dir()
    assert done.missing == []


def test_the_copy_that_an_update_left_can_be_restored(home: Home) -> None:
    copy = home.backups / "before-schema-9-x.db"
    copy.parent.mkdir()
    copy.write_bytes((back_up(home, home.backups).folder / "pawl.db").read_bytes())
    write(home, "second")
    assert restore(home, copy).made is None
    assert state(home) == {"first", "second"}  # the database alone


def test_a_home_that_is_held_is_not_touched(home: Home) -> None:
    backup = back_up(home, home.backups)
    lock = HomeLock(home)
    with pytest.raises(HomeHeld, match="stop it"):
        restore(home, backup.folder)
    lock.release()
    assert not list(home.path.glob("before-restore-*"))


def cut(folder: Path) -> None:
    with open(folder / "pawl.db", "r+b") as file:
        file.truncate(20_000)


def flip(folder: Path) -> None:
    content = bytearray((folder / "blind.key").read_bytes())
    content[0] ^= 1
    (folder / "blind.key").write_bytes(content)


def remanifest(folder: Path, change: str | None) -> None:
    """A backup whose manifest was written over a changed database, or one that was cut."""
    if change is None:
        cut(folder)
    else:
        connection = sqlite3.connect(folder / "pawl.db")
        connection.execute(change)
        connection.commit()
        connection.close()
    write_manifest(folder, {"kind": "backup", "made": "then"})


@pytest.mark.parametrize(
    ("damage", "error", "text"),
    [
        (cut, BackupFailed, "pawl.db has 20000 bytes .* take another one"),
        (flip, BackupFailed, "blind.key differs from the SHA-256"),
        (lambda f: (f / "manifest.json").unlink(), BackupFailed, "never finished"),
        (lambda f: (f / "owner.key").unlink(), BackupFailed, "owner.key is missing"),
        (lambda f: remanifest(f, "PRAGMA user_version=99"), NewerDatabase, "update Pawl"),
        (lambda f: remanifest(f, "PRAGMA user_version=0"), BackupFailed, "not one of Pawl's"),
        (lambda f: remanifest(f, None), SnapshotFailed, "is damaged"),
    ],
)
def test_a_backup_that_is_not_as_it_should_be_is_refused_and_nothing_is_touched(
    home: Home, damage: Any, error: type[Exception], text: str
) -> None:
    backup = back_up(home, home.backups)
    write(home, "second")
    damage(backup.folder)
    before = content(home)
    with pytest.raises(error, match=text):
        restore(home, backup.folder)
    assert state(home) == {"second"}
    assert content(home) == before


def content(home: Home) -> list[str]:
    """What lies in a home, without the lock and what reading a database lays beside it."""
    passing = {"instance.lock", "pawl.db-wal", "pawl.db-shm"}
    return sorted({path.name for path in home.path.iterdir()} - passing)


DYING = """
import os, signal, sys
from pathlib import Path
from data.home import Home
from data.restore import restore

left = [0]

def dying(call):
    def instead(*given, **named):
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return call(*given, **named)
    return instead

for step in sys.stdin:  # one child for each, which dies at that change to the disk
    pid = os.fork()
    if not pid:
        left[0] = int(step)
        for name in ("rename", "replace", "link", "unlink", "rmdir", "fsync", "mkdir"):
            setattr(os, name, dying(getattr(os, name)))
        restore(Home(path=Path(sys.argv[1])), Path(sys.argv[2]))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture
def dying_restore(home: Home) -> Iterator[Callable[[Path, int], int]]:
    """Restores in a child that is killed at its n-th change to the disk; its exit code."""
    started: list[subprocess.Popen[str]] = []

    def run(folder: Path, step: int) -> int:
        if not started:
            started.append(python(DYING, str(home.path), str(folder)))
        process = started[0]
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{step}\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    yield run
    for process in started:
        process.communicate()


def test_killed_anywhere_a_restore_leaves_the_old_home_or_the_new_one(
    home: Home, dying_restore: Callable[[Path, int], int]
) -> None:
    backup = back_up(home, home.backups)
    seen = []
    for step in range(500):
        write(home, "second")
        code = dying_restore(backup.folder, step)
        open_home(home.path)
        HomeLock(home).release()
        found = state(home)
        assert len(found) == 1, f"mixed after a kill at change {step}: {found}"
        seen += found
        assert ask(home.database, "PRAGMA integrity_check") == [("ok",)]
        Store(home.database).close()
        assert not list(home.path.glob("restoring*"))
        if code == 0:
            break
    assert code == 0 and {"first", "second"} == set(seen)
    assert seen == sorted(seen, reverse=True), "once it is new, it stays new"
    for kept in home.path.glob("before-restore-*"):
        assert state(Home(path=kept)) == {"second"}


def test_a_backup_of_a_home_whose_restore_was_cut_off_waits_for_its_end(home: Home) -> None:
    (home.path / "restoring" / "new").mkdir(parents=True)
    with pytest.raises(BackupFailed, match="start python3 run.py once"):
        back_up(home, home.backups)
    HomeLock(home).release()
    assert back_up(home, home.backups).rows["checkpoint"] == 2
