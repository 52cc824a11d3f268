"""The published client against a real server: the acceptance script as it is, every check of it."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.process import ROOT, Server

CLIENT = "envloop-cli==1.7.0"
PLACES = (ROOT / "shared", ROOT.parent / "shared")


@pytest.fixture(scope="module")
def script() -> Path:
    """The acceptance script, which lies beside the sources and is no part of them."""
    found = [place / "accept" / "el_client.py" for place in PLACES]
    there = [path for path in found if path.is_file()]
    if not there:
        pytest.skip("shared/accept/el_client.py is not in this checkout")
    return there[0]


@pytest.fixture(scope="module")
def published_client() -> Path:
    """The `el` command in an environment of its own, made once and kept in the cache folder."""
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


@pytest.mark.timeout(600)
def test_the_published_client_works_unmodified(
    server: Server, key: str, viewer: str, script: Path, published_client: Path
) -> None:
    command = [sys.executable, str(script), "--base-url", server.url, "--key", key]
    command += ["--viewer-key", viewer, "--el", str(published_client)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIP" not in done.stdout and ", 0 failed" in done.stdout
