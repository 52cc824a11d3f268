"""A real server process for tests: started, asked over its administration socket, killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from sqlmodel import select

from app.admin import call_admin
from data.home import Home
from data.store import Reader
from data.tables import Child, Run
from tests.stopwatch import Stopwatch

ROOT = Path(__file__).parent.parent.parent
SMALL = {  # limits of a run that is over soon
    "max_model_cost_usd": 1.0,
    "diag_per_family": 2,
    "dev_n": 16,
    "collect_tasks": 12,
    "collect_k": 1,
    "blind_n": 16,
    "eval_limit": 8,
}


class Server:
    """`run.py serve` on a home of its own; `url` is known once it answers."""

    command: tuple[str, ...] = (sys.executable, str(ROOT / "run.py"))

    def __init__(self, home: Path, *words: str, **environment: str) -> None:
        self.home = Home(path=home.resolve())
        self.log = home / "server.log"
        home.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.command, "serve", "--no-browser", *words],
                env={**environment_for(home), **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.url = self._wait_for_url()

    def _wait_for_url(self) -> str:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            note = self.home.server()
            if note and note["pid"] == self.process.pid and is_listening(note["url"]):
                return str(note["url"])
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"no server after 120 s: {self.log.read_text()}")

    def start_run(self, **fields: Any) -> str:
        """Start a run as the owner."""
        given = {"brief": "learn sums", "limits": {"max_model_cost_usd": 1.0}, "seed": 5, **fields}
        return str(call_admin(self.home.admin_socket, "start_run", **given))

    def read(self, query: Any) -> list[Any]:
        """Rows of the home's database."""
        reader = Reader(self.home.database)
        with reader.read() as session:
            rows = list(session.exec(query))
        reader.close()
        return rows

    def run(self, run: str) -> Run:
        """A run's row."""
        found: Run = self.read(select(Run).where(Run.id == run))[0]
        return found

    def wait_for(self, query: Any, seconds: float) -> list[Any]:
        """Rows of a query as soon as there are any."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if rows := self.read(query):
                return rows
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"nothing after {seconds} s: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL, to the server alone."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM, after which it has ended in time; the exit code."""
        watch = Stopwatch()
        self.process.terminate()
        code = self.process.wait(90)
        assert watch.stop() < 20
        return code

    def close(self) -> None:
        """End the server however it is."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def children(self) -> list[int]:
        """Processes that this home's servers recorded and that are still alive."""
        pids = {child.pid for child in self.read(select(Child))}
        return [pid for pid in pids if is_running(pid)]


def environment_for(home: Path) -> dict[str, str]:
    """This environment with another home, and without pytest's marks, which NiceGUI looks for."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "NICEGUI_"))}
    return {**kept, "PAWL_HOME": str(home)}


def is_listening(url: str) -> bool:
    """Whether something accepts connections there."""
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def status_with(url: str, key: str) -> int:
    """What a request with this key is answered; 404 is what an unknown path gives to the known."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def is_running(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def result_of_demo(home: Path, *arguments: str, seconds: float) -> tuple[dict[str, Any], str]:
    """Run `run.py demo` to its end; its JSON and what it printed."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "demo.json"
    command = [sys.executable, str(ROOT / "run.py"), "demo", "--json", str(file), *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment_for(home),
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(file.read_text())
    return found, done.stdout
