"""The home folder: where everything lies, held by one server at a time."""

import contextlib
import fcntl
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.files import fsync_folder


class HomeHeld(Exception):
    """Another server holds this home folder; the text names its process and address."""


@dataclass(kw_only=True, slots=True, frozen=True)
class Home:
    """Paths below one home folder (PAWL_HOME)."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "pawl.db"

    @property
    def models(self) -> Path:
        return self.path / "models"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def recipes(self) -> Path:
        return self.path / "recipes"

    @property
    def owner_key(self) -> Path:
        return self.path / "owner.key"

    @property
    def blind_key(self) -> Path:
        return self.path / "blind.key"

    @property
    def server_json(self) -> Path:
        return self.path / "server.json"

    @property
    def admin_socket(self) -> Path:
        return self.path / "admin.sock"

    def run_folder(self, run: str) -> Path:
        """The folder of one run, made on first use."""
        folder = self.path / "runs" / run
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def server(self) -> dict[str, Any] | None:
        """Pid, address and start of the server that wrote server.json last, if any."""
        try:
            found: dict[str, Any] = json.loads(self.server_json.read_text())
            return found
        except (OSError, ValueError):
            return None


def open_home(path: Path) -> Home:
    """Make the home folder (0700) with its sub-folders and the blind split's secret (0600)."""
    home = Home(path=path.resolve())
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    home.path.chmod(0o700)
    for folder in (home.models, home.checkpoints, home.logs, home.recipes, home.path / "runs"):
        folder.mkdir(exist_ok=True, mode=0o700)
    write_secret(home.blind_key, secrets.token_hex(32))
    return home


def write_secret(path: Path, text: str) -> None:
    """Write a secret once, whole, readable by its owner alone; an existing one is kept."""
    if path.exists():
        return
    aside = path.with_name(f"{path.name}.tmp-{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # somebody else was faster: theirs is kept
            os.link(aside, path)
        fsync_folder(path.parent)
    finally:
        aside.unlink()


class HomeLock:
    """The lock that one server holds for as long as it lives; the kernel frees it at any death."""

    def __init__(self, home: Home) -> None:
        self._file = open(home.path / "instance.lock", "a+")  # noqa: SIM115  held until release
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise HomeHeld(_held_text(home)) from None

    def release(self) -> None:
        """Let another server have the home."""
        self._file.close()


def is_held(home: Home) -> bool:
    """Whether a server holds this home at the moment."""
    try:
        HomeLock(home).release()
        return False
    except HomeHeld:
        return True


def _held_text(home: Home) -> str:
    server = home.server() or {}
    who = f"process {server['pid']}, started {server['started']}" if server else "a process"
    where = f" and answers at {server['url']}" if server.get("url") else ""
    return f"{home.path} is held by {who}{where}; stop it, or set PAWL_HOME to another folder"
