"""The published client against a real server: the acceptance script as it is, every check of it."""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlmodel import select

from data.tables import Run
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


@pytest.mark.timeout(180)
def test_it_downloads_and_deletes_what_was_trained(
    server: Server, key: str, published_client: Path, tmp_path: Path
) -> None:
    limits = {"max_model_cost_usd": 1.0, "diag_per_family": 4, "dev_n": 100}
    limits |= {"collect_tasks": 120, "blind_n": 100}
    server.start_run(run="keeps", preset="sim", seed=7, rounds=2, limits=limits)
    server.wait_for(select(Run).where(Run.id == "keeps", Run.state == "finished"), 120)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ENVLOOP_HOME": str(tmp_path / "el")}
    env |= {"ENVLOOP_BASE_URL": server.url, "ENVLOOP_API_KEY": key}

    def el(*words: str) -> str:
        command = [str(published_client), "checkpoint", *words]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    listed = json.loads(el("list", "--run-id", "keeps", "--json"))["items"]
    second, first = listed
    el("download", first["tinker_path"], str(tmp_path / "files"))
    for file in first["files"]:
        content = (tmp_path / "files" / file["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
    el("delete", first["checkpoint_id"], "--wait")
    left = json.loads(el("list", "--run-id", "keeps", "--json"))["items"]
    assert [one["checkpoint_id"] for one in left] == [second["checkpoint_id"]]
