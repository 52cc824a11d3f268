"""Two starts at once, a home that is taken, a port that is taken, a home of a newer Pawl."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from app.serving import listen
from data.home import Home, is_held, open_home
from data.store import Store
from tests.listening import free_port
from tests.server.process import ROOT, Server, environment_for, is_listening

RACES = 50


def start(home: Path, *words: str) -> subprocess.Popen[str]:
    """A start of the server whose words are kept."""
    command = [sys.executable, str(ROOT / "run.py"), "serve", "--no-browser", *words]
    return subprocess.Popen(
        command,
        env=environment_for(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.timeout(600)
def test_of_two_starts_at_once_exactly_one_has_the_home_fifty_times(tmp_path):
    """Both ask for the same port: one that took it before the home would end with 3."""
    home, port = open_home(tmp_path), str(free_port())
    for race in range(RACES):
        both = [start(tmp_path, "--port", port) for _ in range(2)]
        try:
            loser = first_to_end(both)
            winner = next(one for one in both if one is not loser)
            said = loser.communicate()[1]
            assert loser.returncode == 2, f"race {race}: {said}"
            assert said.startswith(f"{tmp_path} is held by process {winner.pid}, started 20")
            assert said.endswith("; stop it, or set PAWL_HOME to another folder\n")
            assert (
                " and is still starting" in said or f" answers at http://127.0.0.1:{port}" in said
            )
            assert winner.poll() is None and is_held(home)
            assert json.loads(home.lock_file.read_text())["pid"] == winner.pid
        finally:
            end(*both)


def first_to_end(processes: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for process in processes:
            if process.poll() is not None:
                return process
        time.sleep(0.005)
    raise AssertionError("both hold the home")


def test_a_look_at_the_home_does_not_keep_a_start_out(tmp_path):
    """Other commands ask whether a server is there by trying the lock themselves."""
    home = open_home(tmp_path)
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            is_held(home)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        server = Server(tmp_path)
        server.close()
    finally:
        over.set()
        looking.join()
    assert server.process.returncode == 0


def test_a_late_start_learns_where_the_server_answers(tmp_path):
    server = Server(tmp_path)
    try:
        late = start(tmp_path)
        said = late.communicate(timeout=90)[1]
        assert late.returncode == 2
        assert f"process {server.process.pid}, started 20" in said
        assert f"and answers at {server.url};" in said
    finally:
        server.close()


def test_nothing_has_begun_when_the_port_is_taken(tmp_path):
    with listen("127.0.0.1", None, range(free_port(), 65536)) as taken:
        port = taken.getsockname()[1]
        late = start(tmp_path, "--port", str(port))
        said = late.communicate(timeout=90)[1]
    assert late.returncode == 3
    assert said.startswith(f"port {port} is taken (process ") and "--port" in said
    home = Home(path=tmp_path)
    assert not home.database.exists() and not home.server_json.exists() and not is_held(home)


def test_the_port_is_the_servers_own_before_there_is_an_engine(tmp_path):
    """Nobody can slip in between the look at the port and the first answer."""
    home, port = Home(path=tmp_path), free_port()
    os.mkfifo(home.owner_key)  # the database is open once it is read, which waits for a writer
    server = start(tmp_path, "--port", str(port))
    try:
        deadline = time.monotonic() + 90
        while not is_listening(f"http://127.0.0.1:{port}"):
            assert time.monotonic() < deadline and server.poll() is None
            time.sleep(0.05)
        assert not home.server_json.exists(), "it is only just starting"
    finally:
        end(server)


def test_a_home_of_a_newer_pawl_is_left_as_it_is(tmp_path):
    home = open_home(tmp_path)
    Store(home.database).close()
    with sqlite3.connect(home.database) as database:
        database.execute("PRAGMA user_version=999")
    database.close()
    before = home.database.read_bytes()
    late = start(tmp_path)
    said = late.communicate(timeout=90)[1]
    assert late.returncode == 2
    assert "the database has schema 999, this Pawl knows " in said and "update Pawl" in said
    assert "Traceback" not in said
    assert home.database.read_bytes() == before and not is_held(home)
