"""Keys, people and settings by command: beside a running server, without one, and at its start."""

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlmodel import select
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Event, RejectConnection, Request

from data.tables import ApiKey
from tests.server.process import ROOT, Server, environment_for, status_with
from tests.stopwatch import Stopwatch

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("served"))
    yield one
    one.close()


def command(home: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run `run.py` with these words on a home."""
    return subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *words],
        env=environment_for(home),
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def worked(home: Path, *words: str, given: str = "") -> str:
    done = command(home, *words, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for_line(server: Server, text: str) -> str:
    """What the server has printed, once this is part of it."""
    deadline = time.monotonic() + 60
    while text not in (told := server.log.read_text()):
        assert time.monotonic() < deadline, told
        time.sleep(0.05)
    return told


def test_a_key_made_beside_a_server_works_there_until_it_is_revoked(server: Server) -> None:
    home = server.home.path
    out = worked(home, "key", "create", "--name", "automation", "--role", "developer")
    key = out.splitlines()[-1]
    assert re.fullmatch(r"pawl_[0-9a-f]{8}_[\w-]{43}", key)
    assert status_with(f"{server.url}/v1/no-such-path", key) == 404
    listed = worked(home, "key", "list")
    assert "automation" in listed and key not in listed
    worked(home, "key", "revoke", key.split("_")[1])
    assert status_with(f"{server.url}/v1/no-such-path", key) == 401
    assert key not in server.log.read_text()


def test_a_person_added_beside_a_server_signs_in_there_until_removed(server: Server) -> None:
    home = server.home.path
    worked(home, "user", "add", "ann", "--role", "viewer", "--password-stdin", given=PASSWORD)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    form = f"name=ann&password={PASSWORD.replace(' ', '+')}".encode()
    opener.open(f"{server.url}/session", form, timeout=10).close()
    with opener.open(f"{server.url}/session", timeout=10) as page:
        assert json.load(page) == {"actor": "ann"}
    assert "ann" in worked(home, "user", "list")
    worked(home, "user", "role", "ann", "--role", "developer")
    worked(home, "user", "password", "ann", "--password-stdin", given="another horse battery")
    assert PASSWORD not in server.log.read_text()
    worked(home, "user", "remove", "ann")
    with pytest.raises(urllib.error.HTTPError) as refused:
        opener.open(f"{server.url}/session", timeout=10)
    refused.value.close()
    assert refused.value.code == 401


def test_a_revoked_key_closes_its_open_socket_within_five_seconds(server: Server) -> None:
    home = server.home.path
    out = worked(home, "key", "create", "--name", "socket", "--role", "viewer")
    key = out.splitlines()[-1]

    async def seconds_until_closed() -> float:
        reader, writer, connection = await open_socket(server, key)
        began, watch = datetime.now(UTC), Stopwatch()
        revoking = asyncio.to_thread(worked, home, "key", "revoke", key.split("_")[1])
        task = asyncio.create_task(revoking)
        while not any(
            isinstance(one, CloseConnection) for one in await receive(reader, connection)
        ):
            pass
        passed = watch.stop()
        await task
        writer.close()
        (row,) = server.read(select(ApiKey).where(ApiKey.name == "socket"))
        return passed - (datetime.fromisoformat(row.revoked_at) - began).total_seconds()

    assert asyncio.run(asyncio.wait_for(seconds_until_closed(), 90)) < 5


async def open_socket(
    server: Server, key: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, WSConnection]:
    """A WebSocket to the console's own path, by key."""
    host = server.url.removeprefix("http://")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    connection = WSConnection(ConnectionType.CLIENT)
    headers = [(b"Authorization", f"Bearer {key}".encode())]
    target = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    writer.write(connection.send(Request(host=host, target=target, extra_headers=headers)))
    events = await receive(reader, connection)
    assert not any(isinstance(event, RejectConnection) for event in events)
    assert any(isinstance(event, AcceptConnection) for event in events)
    return reader, writer, connection


async def receive(reader: asyncio.StreamReader, connection: WSConnection) -> list[Event]:
    data = await reader.read(65536)
    connection.receive_data(data or None)
    return list(connection.events())


def test_refusals_say_why_and_change_nothing(server: Server) -> None:
    home = server.home.path
    for words, given, why in (
        (("user", "remove", "owner"), "", "last administrator"),
        (("user", "add", "bob", "--role", "admin", "--password-stdin"), "short", "12 to 256"),
        (("user", "add", "bob", "--role", "admin"), "", "--password-stdin"),
        (("key", "create", "--name", "x", "--role", "viewer", "--project", "p"), "", "prj_local"),
        (("setting", "set", "allowed_hosts", "https://x"), "", "without scheme"),
    ):
        done = command(home, *words, given=given)
        assert done.returncode == 1, words
        assert why in done.stderr and "Traceback" not in done.stderr
    assert "bob" not in worked(home, "user", "list")


def test_a_setting_acts_on_the_running_server(server: Server) -> None:
    home = server.home.path
    request = urllib.request.Request(f"{server.url}/sign-in", headers={"Host": "lab.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    refused.value.close()
    assert refused.value.code == 421
    worked(home, "setting", "set", "allowed_hosts", "lab.example")
    with urllib.request.urlopen(request, timeout=10) as page:
        assert page.status == 200
    assert "lab.example" in worked(home, "setting", "list")
    worked(home, "setting", "set", "allowed_hosts", "")


def test_without_a_server_the_commands_write_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAWL_VLLM", raising=False)
    out = worked(tmp_path, "key", "create", "--name", "first", "--role", "viewer", "--expires", "7")
    key = out.splitlines()[-1]
    worked(tmp_path, "user", "add", "ann", "--role", "admin", "--password-stdin", given=PASSWORD)
    worked(tmp_path, "setting", "set", "root_path", "/lab")
    chosen = command(tmp_path, "setting", "set", "engine", "vllm")
    assert chosen.returncode == 0 and "python3 run.py install vllm" in chosen.stderr
    worked(tmp_path, "setting", "set", "engine", "auto")
    assert "ann" in worked(tmp_path, "user", "list")
    second = command(tmp_path, "key", "create", "--name", "first", "--role", "viewer")
    assert second.returncode == 1 and "in use" in second.stderr
    one = Server(tmp_path)
    try:
        assert status_with(f"{one.url}/v1/no-such-path", key) == 404
        assert status_with(f"{one.url}/lab/v1/no-such-path", key) == 404
    finally:
        one.close()


def test_many_commands_at_once_without_a_server_all_have_their_turn(tmp_path: Path) -> None:
    worked(tmp_path, "key", "list")
    words = [sys.executable, str(ROOT / "run.py"), "key", "create", "--role", "viewer", "--name"]
    running = [
        subprocess.Popen(
            [*words, f"k{number}"],
            env=environment_for(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    ended = [(one.communicate(timeout=60), one.returncode) for one in running]
    assert [code for _, code in ended] == [0, 0, 0], ended
    listed = worked(tmp_path, "key", "list")
    assert all(f"k{number}" in listed for number in range(3))


def test_a_server_for_others_starts_only_when_somebody_has_thought_of_it(tmp_path: Path) -> None:
    words = ("--host", "0.0.0.0", "--no-browser")
    refused = command(tmp_path, *words)
    assert refused.returncode == 2
    assert "user password owner" in refused.stderr and "--allowed-hosts" in refused.stderr
    worked(tmp_path, "user", "password", "owner", "--password-stdin", given=PASSWORD)
    assert command(tmp_path, *words).returncode == 2
    one = Server(tmp_path, *words[:2], "--allowed-hosts", "lab.example")
    try:
        told = wait_for_line(one, "Sign in once")
        assert f"http://lab.example:{one.url.rpartition(':')[2]}" in told
        assert "Warning: this is plain HTTP" in told
        assert one.url.startswith("http://127.0.0.1:")
    finally:
        one.close()
