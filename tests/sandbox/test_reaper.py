"""What a killed server leaves of its sandboxes is removed by the next one, and nothing else is."""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.sandbox import reaper
from engine.sandbox.docker_engine import DockerEngine
from engine.sandbox.owner import instance_of, is_left_behind, mark
from tests.server.process import ROOT, Server, environment_for

GONE = 2**22 + 1  # no process has this number
TOLD = re.compile(r"(\d+) sandboxes that nobody owned")


@pytest.fixture
def elsewhere(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[str]:
    """A container that a dead server of another home has left, long past its time."""
    home = tmp_path / "elsewhere"
    home.mkdir()
    dead = DockerEngine(f"{mark(home)}-{GONE}-1")
    container = dead.create("one-shot", ["sleep", "900"], "-", -60)
    yield container
    dead.remove(container)
    dead.close()


def of_home(engine: DockerEngine, home: Path) -> list[str]:
    """Containers whose label says that a server of this home has made them."""
    found = engine._client.api.containers(all=True, filters={"label": "app=pawl"})
    return [one["Id"] for one in found if one["Labels"]["instance"].startswith(mark(home))]


@pytest.mark.timeout(180)
def test_nothing_is_left_a_minute_after_a_killed_server_is_started_again(
    docker_engine: DockerEngine, elsewhere: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.holder"],
        cwd=ROOT,
        env=environment_for(home),
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "up\n"
            assert len(of_home(docker_engine, home)) == 10
            assert reaper.sweep(home) == 0, "a living server's containers stay"
        finally:
            holder.kill()
    server = Server(home)
    try:
        began = time.monotonic()
        while left := of_home(docker_engine, home):
            assert time.monotonic() - began < 60, left
            time.sleep(0.2)
        assert docker_engine.state(elsewhere)["Status"] == "created"
        while (told := sum(map(int, TOLD.findall((home / "logs/server.log").read_text())))) < 10:
            assert time.monotonic() - began < 60, told
            time.sleep(0.2)
    finally:
        server.close()
        for container in of_home(docker_engine, home):
            docker_engine.remove(container)


def test_a_container_past_its_time_goes_even_while_its_server_lives(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    own = DockerEngine(instance_of(tmp_path))
    late = own.create("one-shot", ["true"], "-", -60)
    own.create("one-shot", ["true"], "-", 60)
    assert reaper.sweep(tmp_path) == 1
    left = of_home(docker_engine, tmp_path)
    assert len(left) == 1 and late not in left
    own.remove_all()
    own.close()
    assert of_home(docker_engine, tmp_path) == []


class Stubborn(http.server.BaseHTTPRequestHandler):
    """An engine with two containers of a dead server, of which it does not remove the first."""

    def do_GET(self) -> None:
        labels = {"instance": f"{mark(self.server.home)}-{GONE}-1"}  # type: ignore[attr-defined]
        self.answer(200, [{"Id": name, "Labels": labels} for name in ("first", "second")])

    def do_DELETE(self) -> None:
        self.server.asked.append(self.path.split("?")[0])  # type: ignore[attr-defined]
        self.answer(500 if "first" in self.path else 204, {"message": "device is busy"})

    def answer(self, status: int, said: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode() if status != 204 else b"")

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_container_that_cannot_be_removed_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Stubborn) as engine:
        engine.home, engine.asked = tmp_path, []  # type: ignore[attr-defined]
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{engine.server_port}")
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        with pytest.raises(OSError, match="500: .*device is busy"):
            reaper.sweep(tmp_path)
        engine.shutdown()
    assert engine.asked == ["/containers/first", "/containers/second"]  # type: ignore[attr-defined]


def test_a_label_is_ours_by_home_and_process(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    own = instance_of(tmp_path / "a")
    process = own.removeprefix(f"{mark(tmp_path / 'a')}-{os.getpid()}-")
    here = mark(tmp_path / "a")
    assert not is_left_behind(own, tmp_path / "a")
    assert is_left_behind(f"{here}-{GONE}-{process}", tmp_path / "a")
    assert is_left_behind(f"{here}-{os.getpid()}-1", tmp_path / "a"), "the number is another's now"
    assert not is_left_behind(f"{here}-{GONE}-1", tmp_path / "b")
    assert not is_left_behind("control", tmp_path / "a")


def test_without_an_engine_the_reaper_says_so_once_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with caplog.at_level("INFO", logger="engine.sandbox.reaper"):
        one = reaper.Reaper(tmp_path, seconds=0.05)
        one.start()
        deadline = time.monotonic() + 30
        while not told(caplog) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)  # for some more looks
        one.stop()
    (words,) = told(caplog)
    assert "No such file" in words


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == reaper.log.name]
