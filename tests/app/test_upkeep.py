"""`run.py backup`, `restore` and `clean`, beside a real server and without one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlmodel import Session

from data.files import verify_manifest
from data.home import Home
from data.store import Store
from data.tables import Setting
from tests.server.process import ROOT, Server, environment_for


def command(home: Home, *words: str) -> tuple[int, str]:
    """Exit code and what a person sees."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *words],
        env=environment_for(home.path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def leave_something_to_clean(home: Home) -> Path:
    left = home.checkpoints / "adapter.tmp-12345678"
    left.mkdir()
    (left / "adapter_model.safetensors").write_bytes(bytes(5_000_000))
    long_ago = time.time() - 7200
    for path in (left / "adapter_model.safetensors", left):
        os.utime(path, (long_ago, long_ago))
    return left


def newest_backup(home: Home) -> Path:
    return max(home.backups.iterdir())


def test_upkeep_beside_a_server_and_after_it(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    home = server.home
    try:
        left = leave_something_to_clean(home)
        code, said = command(home, "backup")
        assert code == 0 and f"Backup {newest_backup(home)}" in said
        assert "integrity checked" in said and f"restore {newest_backup(home)}" in said
        verify_manifest(newest_backup(home))

        code, said = command(home, "clean")
        assert code == 0 and "Would go:" in said and "adapter.tmp-12345678" in said
        assert "5.0 MB" in said and "clean --yes does it" in said and left.exists()
        code, said = command(home, "clean", "--yes")
        assert code == 0 and "Gone:" in said and "Freed 5.0 MB" in said and not left.exists()

        code, said = command(home, "restore", str(newest_backup(home)))
        assert code == 1 and f"held by process {server.process.pid}" in said and "stop it" in said
        assert server.terminate() == 0
    finally:
        server.close()

    key = home.owner_key.read_text()
    home.owner_key.write_text("another")
    code, said = command(home, "restore", str(newest_backup(home)))
    assert code == 0 and "What was there before is in" in said and "python3 run.py" in said
    assert home.owner_key.read_text() == key
    assert command(home, "clean") == (0, "Nothing to clean.\n")
    again = Server(home.path)
    again.close()


def test_a_home_that_is_not_there_is_said_and_not_made(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "nothing")
    for words in (["backup"], ["clean"]):
        code, said = command(home, *words)
        assert code == 1 and "no database yet" in said and "--home" in said
    code, said = command(home, "restore", str(tmp_path / "typo"))
    assert code == 1 and "python3 run.py backup" in said
    assert not home.path.exists()


@pytest.mark.parametrize("word", ["serve", "clean"])
def test_a_newer_database_is_refused_with_the_mend(tmp_path: Path, word: str) -> None:
    home = Home(path=tmp_path)
    store = Store(home.database)
    store.write(lambda s: s.connection().exec_driver_sql("PRAGMA user_version=99"))
    store.close()
    code, said = command(home, word, *(["--no-browser"] if word == "serve" else []))
    assert code in (1, 2) and said.strip().endswith("update Pawl")


def test_a_start_updates_an_older_home_by_itself_and_keeps_a_copy(tmp_path: Path) -> None:
    import sqlite3

    home = Home(path=tmp_path / "home")
    home.path.mkdir()
    script = (Path(__file__).parent.parent / "data" / "schema-1.sql").read_text()
    db = sqlite3.connect(home.database)
    db.executescript(script)
    db.close()
    server = Server(home.path)
    server.close()
    (copy,) = home.backups.glob("before-schema-2-*.db")
    code, said = command(home, "restore", str(copy))
    assert (
        code == 0
        and "Checkpoints that the database lists and the disk lacks: 0123456789abcdef" in said
    )

    def add(s: Session) -> None:
        s.add(Setting(name="after", value="x"))

    store = Store(home.database)  # updated once more
    store.write(add)
    store.close()
