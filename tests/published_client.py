"""The published client in an environment of its own, made once and kept in the cache folder."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = "envloop-cli==1.7.0"


def install() -> Path:
    """The `el` command; skips the test where the client cannot be installed, but in CI."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pawl"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / CLIENT.replace("==", "-")
    with open(cache / "client.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _install(folder)
    return folder / "bin" / "el"


def _install(folder: Path) -> None:
    run = [sys.executable, "-m", "venv", "--clear", str(folder)]
    install = [str(folder / "bin" / "pip"), "install", "--quiet", CLIENT]
    for command in (run, install):
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode and os.environ.get("CI") != "true":
            pytest.skip(f"{CLIENT} cannot be installed here: {done.stderr.strip()[-200:]}")
        assert done.returncode == 0, done.stderr
    (folder / "complete").touch()
