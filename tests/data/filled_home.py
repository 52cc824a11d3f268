"""A home with a little of everything that a backup holds, in a first and in later states."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import data
from data.files import write_manifest
from data.home import Home, open_home
from data.store import Store
from data.tables import Checkpoint, Setting


def filled_home(folder: Path) -> Home:
    """A home with a little of everything."""
    home = open_home(folder)
    store = Store(home.database)
    store.write(lambda s: s.add(Setting(name="which", value="first")))
    for name in ("aaaa", "bbbb"):
        make_checkpoint(home, name)
        store.write(lambda s, name=name: s.add(checkpoint(name)))  # type: ignore[misc]
    store.close()
    home.owner_key.write_text("owner-first")
    home.blind_key.write_text("blind-first")
    (home.path / "precision-cpu.json").write_text('{"precision": "float32"}')
    (home.recipes / "presets").mkdir()
    (home.recipes / "presets" / "mine.toml").write_text("first = true\n")
    return home


def checkpoint(name: str) -> Checkpoint:
    return Checkpoint(
        id=name, project_id="p", base_model="sim", base_revision="r", size_bytes=4, run="r"
    )


def make_checkpoint(home: Home, name: str) -> None:
    folder = home.checkpoints / name
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(name.encode() * 1000)
    write_manifest(folder)


def ask(database: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def write(home: Home, value: str) -> None:
    """Everything that a backup holds, in its second state."""
    store = Store(home.database)
    store.write(lambda s: s.merge(Setting(name="which", value=value)))
    store.close()
    home.owner_key.write_text(f"owner-{value}")
    home.blind_key.write_text(f"blind-{value}")
    (home.recipes / "presets" / "mine.toml").write_text(f"{value} = true\n")


def state(home: Home) -> set[str]:
    """Which states a home is in: one word when nothing is mixed."""
    (value,) = ask(home.database, "SELECT value FROM setting WHERE name='which'")[0]
    return {
        value,
        home.owner_key.read_text().removeprefix("owner-"),
        home.blind_key.read_text().removeprefix("blind-"),
        (home.recipes / "presets" / "mine.toml").read_text().partition(" ")[0],
    }


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(data.__path__[0]).parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def child(code: str, *arguments: str) -> int:
    process = python(code, *arguments)
    process.communicate()
    return process.returncode
