"""The home folder: where everything lies, held by one server at a time."""

import contextlib
import fcntl
import json
import os
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.files import fsync_folder
from data.swap import finish_swap

PATIENCE_SECONDS = 2.0  # for a holder that has not said yet who it is, or only had a look


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
    def backups(self) -> Path:
        return self.path / "backups"

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
    def lock_file(self) -> Path:
        return self.path / "instance.lock"

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


def home_folder() -> Path:
    """PAWL_HOME, else the default place; not made here."""
    return Path(os.environ.get("PAWL_HOME") or "~/.local/share/pawl").expanduser().resolve()


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
    """The lock that one server holds for as long as it lives; the kernel frees it at any death.

    The lock's file says which process holds it, from the first moment on.
    """

    def __init__(self, home: Home) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (descriptor := _try_lock(home)) is None:
            holder = _holder(home)
            if holder or time.monotonic() > deadline:
                raise HomeHeld(_held_text(home, holder))
            time.sleep(0.01)
        self._descriptor = descriptor
        started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._say({"pid": os.getpid(), "started": started})
        finish_swap(home.path)  # of a restore that was cut off

    def release(self) -> None:
        """Let another server have the home."""
        self._say({})
        os.close(self._descriptor)

    def _say(self, note: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # a full disk is told about elsewhere
            os.truncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(note).encode(), 0)


def is_held(home: Home) -> bool:
    """Whether a server holds this home at the moment."""
    descriptor = _try_lock(home)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def _try_lock(home: Home) -> int | None:
    """A descriptor that holds the lock, or None when another process does."""
    descriptor = os.open(home.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _holder(home: Home) -> dict[str, Any] | None:
    """Pid and start of the living process that the lock's file names."""
    try:
        note: dict[str, Any] = json.loads(home.lock_file.read_text())
        os.kill(note["pid"], 0)
    except (OSError, ValueError, KeyError):
        return None
    return note


def _held_text(home: Home, holder: dict[str, Any] | None) -> str:
    server = home.server() or {}
    who, where = "a process", ""
    if holder:
        who = f"process {holder['pid']}, started {holder['started']}"
        is_ready = server.get("pid") == holder["pid"]
        where = f" and answers at {server['url']}" if server.get("url") else ""
        where = where if is_ready else " and is still starting"
    return f"{home.path} is held by {who}{where}; stop it, or set PAWL_HOME to another folder"
