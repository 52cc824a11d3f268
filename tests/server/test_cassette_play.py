"""A recorded run in a console of its own: exported and played by the real commands."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from app.access import Access
from data.home import open_home
from data.store import Store
from data.tables import Run
from tests import sample_run
from tests.server.process import ROOT, environment_for

RUN = "arith-carry-1"


def pawl(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One command of run.py on a home."""
    command = [sys.executable, str(ROOT / "run.py"), *words]
    given = environment_for(home)
    return subprocess.run(command, capture_output=True, text=True, env=given, check=False)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cassette of the finished sample run, made by the command."""
    folder = tmp_path_factory.mktemp("cassette")
    home = open_home(folder / "home")
    store = Store(home.database)
    Access(store, home).ensure_owner()
    store.write(sample_run.finished_run)

    def earlier(session: Any) -> None:
        session.get_one(Run, RUN).created_at = sample_run.ago(minutes=100)

    store.write(earlier)
    store.close()
    done = pawl(home.path, "cassette", "export", RUN, str(folder / "carry.jsonl"))
    assert done.returncode == 0, done.stderr
    assert "rows" in done.stdout and "cassette play" in done.stdout
    again = pawl(home.path, "cassette", "export", RUN, str(folder / "carry.jsonl"))
    assert again.returncode == 1 and "choose another name" in again.stderr
    return folder / "carry.jsonl"


class Replay:
    """The process that plays, and a browser that is signed in to it."""

    def __init__(self, file: Path, temporary: Path) -> None:
        self.temporary = temporary
        words = ["cassette", "play", str(file), "--speed", "60", "--no-browser"]
        kept = {n: v for n, v in environment_for(temporary / "unused").items() if "KEY" not in n}
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "run.py"), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**kept, "TMPDIR": str(temporary)},
            start_new_session=True,
        )
        self.said = self._read_until("See it with")
        found = re.search(r"(http://[^/\s]+)/sign-in\S+", self.said)
        assert found, self.said
        self.url = found[1]
        self._browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self._open(found[0]).close()

    def _read_until(self, word: str) -> str:
        assert self.process.stdout is not None
        said = ""
        while word not in said:
            line = self.process.stdout.readline()
            assert line, said
            said += line
        return said

    def _open(self, url: str) -> Any:
        deadline = time.monotonic() + 40
        while True:
            try:
                return self._browser.open(url, timeout=20)
            except urllib.error.HTTPError:
                raise
            except OSError:
                assert time.monotonic() < deadline and self.process.poll() is None, self.said
                time.sleep(0.1)

    def page(self, path: str) -> str:
        """A page as the first answer has it."""
        with self._open(self.url + path) as answer:
            return str(answer.read().decode())

    def get(self, path: str) -> Any:
        """What REST answers."""
        with self._open(f"{self.url}/v1{path}") as answer:
            return json.loads(answer.read())

    def post(self, path: str, body: dict[str, Any]) -> int:
        """The status of a request that would change something."""
        asked = urllib.request.Request(f"{self.url}/v1{path}", json.dumps(body).encode())
        asked.add_header("Content-Type", "application/json")
        asked.add_header("Origin", self.url)
        try:
            with self._browser.open(asked, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code


@pytest.fixture(scope="module")
def replay(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    one = Replay(file, tmp_path_factory.mktemp("tmp"))
    try:
        yield one
    finally:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.communicate()


def test_the_console_shows_the_run_as_it_happened_and_says_replay(replay: Replay) -> None:
    page = replay.page(f"/runs/{RUN}")
    assert f"Replay of {RUN}, 60\\u00d7" in page or f"Replay of {RUN}, 60×" in page
    deadline = time.monotonic() + 30
    while replay.get(f"/agent-runs/rsi/runs/{RUN}")["state"] == "starting":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    run = replay.get(f"/agent-runs/rsi/runs/{RUN}")
    assert run["state"] == "running" and run["replay"] is True and run["reason"] is None
    label = run["config"]["replay"]
    assert label["of"] == RUN and label["speed"] == 60 and label["recorded"]
    (listed,) = replay.get("/agent-runs/rsi/runs")["items"]
    assert listed["replay"] is True
    for tab in ("overview", "evaluations", "rounds", "audits", "directives", "cost"):
        assert "Replay" in replay.page(f"/runs/{RUN}?tab={tab}")


def test_it_goes_on_by_itself(replay: Replay) -> None:
    live = f"/agent-runs/rsi/runs/{RUN}/live"
    before, deadline = replay.get(live)["next_cursor"], time.monotonic() + 60
    while replay.get(live)["next_cursor"] == before:
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_whoever_looks_may_look_and_nothing_else(replay: Replay) -> None:
    assert replay.get("/me")["capabilities"] == ["training.read"]
    body = {"run": "mine", "brief": "b", "limits": {"max_model_cost_usd": 1}}
    assert replay.post("/agent-runs/rsi/runs", body) == 403
    assert replay.post(f"/agent-runs/rsi/runs/{RUN}/control", {"action": "stop"}) == 403
    page = replay.page(f"/runs/{RUN}")
    assert '"Stop…"' not in page and "Stop\\u2026" not in page


def test_it_ends_in_order_and_leaves_nothing(replay: Replay) -> None:
    (folder,) = replay.temporary.glob("pawl-replay-*")
    assert (folder / "pawl.db").is_file()
    replay.process.terminate()
    assert replay.process.wait(30) == 0
    assert not folder.exists()


@pytest.mark.parametrize("speed", ["0.5", "61", "nan", "fast"])
def test_a_speed_outside_of_1_to_60_is_refused(tmp_path: Path, speed: str) -> None:
    done = pawl(tmp_path, "cassette", "play", "none", "--speed", speed)
    assert done.returncode == 2 and "--speed" in done.stderr


def test_a_file_that_is_no_cassette_is_refused_and_nothing_starts(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"format": "pawl-cassette"}\n')
    done = pawl(tmp_path, "cassette", "play", str(bad))
    assert done.returncode == 1 and "cut off or was changed" in done.stderr
    assert "Traceback" not in done.stderr and [one.name for one in tmp_path.iterdir()] == [bad.name]
