"""Which engine answers on this machine: the worker, or vLLM in an environment of its own."""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

ENGINES = ("auto", "worker", "vllm")
MARKER = "pawl-vllm"  # written last into an environment: what was installed, and by which Python
INSTALL = "python3 run.py install vllm"


@dataclass(kw_only=True, slots=True, frozen=True)
class Choice:
    """The engine that answers, "worker" or "vllm", and why in words for people."""

    engine: str
    why: str


def choose_engine(setting: str, vllm: Path | None, has_gpu: bool) -> Choice:
    """What the setting `engine` ("" is auto) means here; `vllm` is the interpreter that has it."""
    if setting == "worker":
        return Choice(engine="worker", why="the setting engine says so")
    if setting == "vllm":
        return Choice(engine="vllm", why="the setting engine says so")
    if vllm is None:
        return Choice(engine="worker", why="vLLM is not installed")
    if not has_gpu:
        why = "without a GPU the worker is as exact and starts at once"
        return Choice(engine="worker", why=why)
    return Choice(engine="vllm", why="it is installed and there is a GPU")


def find_vllm(home: Path) -> Path | None:
    """The interpreter of vLLM's environment: the one that PAWL_VLLM names, else the one that
    set-up finished in this home; None where there is none."""
    given = os.environ.get("PAWL_VLLM")
    if given:
        return Path(given).expanduser()
    folder = vllm_folder(home)
    return interpreter(folder) if (folder / MARKER).is_file() else None


def vllm_folder(home: Path) -> Path:
    """Where vLLM's own environment lies in a home."""
    return home / "vllm"


def interpreter(folder: Path) -> Path:
    """The Python of a virtual environment."""
    return folder / "bin" / "python"


def engine_setting(database: Path) -> str:
    """The setting `engine` as it is stored; "" where it was never set, or there is no database."""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
            found = opened.execute("SELECT value FROM setting WHERE name = 'engine'").fetchone()
    except sqlite3.Error:
        return ""
    return str(found[0]) if found else ""
