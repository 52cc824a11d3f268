"""The published client against a real server: the acceptance script as it is, every check of it."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlmodel import select

from data.tables import Run
from tests.published_client import install
from tests.server.process import ROOT, Server

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
    """The `el` command in an environment of its own."""
    return install()


@pytest.mark.timeout(600)
def test_the_published_client_works_unmodified(
    server: Server, key: str, viewer: str, script: Path, published_client: Path
) -> None:
    command = [sys.executable, str(script), "--base-url", server.url, "--key", key]
    command += ["--viewer-key", viewer, "--el", str(published_client)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIP" not in done.stdout and ", 0 failed" in done.stdout


@pytest.mark.timeout(420)
def test_it_downloads_and_deletes_what_was_trained(
    server: Server, key: str, published_client: Path, tmp_path: Path
) -> None:
    limits = {"max_model_cost_usd": 1.0, "diag_per_family": 4, "dev_n": 100}
    limits |= {"collect_tasks": 120, "blind_n": 100}
    server.start_run(run="keeps", preset="sim", seed=7, rounds=2, limits=limits)
    server.wait_for(select(Run).where(Run.id == "keeps", Run.state == "finished"), 180)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ENVLOOP_HOME": str(tmp_path / "el")}
    env |= {"ENVLOOP_BASE_URL": server.url, "ENVLOOP_API_KEY": key}

    def el(*words: str) -> str:
        command = [str(published_client), "checkpoint", *words]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=180, check=False
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


@pytest.mark.timeout(420)
def test_it_trains_on_rows_without_a_loop(
    server: Server, key: str, published_client: Path, tmp_path: Path
) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ENVLOOP_HOME": str(tmp_path / "el")}
    env |= {"ENVLOOP_BASE_URL": server.url, "ENVLOOP_API_KEY": key}

    def el(*words: str) -> str:
        command = [str(published_client), *words]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    row = {"messages": [{"role": "user", "content": "2+2"}], "completion": "4"}
    spec = {"base_model": "sim/student", "data": {"rows": [row] * 40}}
    spec |= {"evaluate": {"suite": "guard", "n": 20}, "tags": {"rsi_run": "hand", "rsi_round": "1"}}
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"spec": spec, "request_id": "client-1"}))
    done = json.loads(el("job", "submit", "--type", "train", "--file", str(file), "--wait"))
    assert done["status"] == "completed" and done["training"]["base_model"] == "sim/student"
    job = done["job_id"]
    assert json.loads(el("job", "submit", "--type", "train", "--file", str(file)))["job_id"] == job
    got = json.loads(el("job", "get", job))
    assert got["training"]["checkpoint"]["path"].startswith(f"envloop://{job}/")
    assert json.loads(el("job", "result", job))["metrics"]["n"] == 20
    assert "step 2 loss" in el("job", "log", job, "--follow")
    (checkpoint,) = json.loads(el("checkpoint", "list", "--train-job-id", job, "--json"))["items"]
    el("checkpoint", "download", checkpoint["tinker_path"], str(tmp_path / "files"))
    assert "hand" in el("job", "run", "list")
