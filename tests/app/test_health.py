"""Is the server alive, and can it work: each thing that it needs is broken in turn."""

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from sqlmodel import select

from app import health
from app.health import NotReady, check_database, check_disk, check_engine, readyz
from data.disk import Room, room
from data.store import Store
from data.tables import Setting
from tests.instance import Instance, instance
from tests.mounted import mounted
from tests.server.process import Server
from tests.small_disk import fill

ROOMY = Room(total=100 * 10**9, used=40 * 10**9, free=60 * 10**9)
FULLEST, LEAST = 0.95, 200_000_000


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What works is not taken for broken because the machine is busy."""
    monkeypatch.setattr(health, "LIMIT_SECONDS", 60.0)
    monkeypatch.setattr(health, "SILENT_SECONDS", 60.0)


@pytest.fixture
def pawl(tmp_path: Path) -> Iterator[Instance]:
    with instance(tmp_path) as pawl:
        pawl.engine.start()
        yield pawl


def ready(pawl: Instance, **instead: Callable[[], str]) -> tuple[int, dict[str, Any]]:
    """What /readyz answers for an instance, with some of its checks replaced."""
    needed: dict[str, Callable[[], str]] = {
        "database": lambda: check_database(pawl.store.write),
        "disk": lambda: check_disk(room(pawl.home.path), 1.0, 0),
        "engine": lambda: check_engine(pawl.engine.beat_age()),
    }
    answer = asyncio.run(ask(readyz(needed | instead, {"docker": lambda: "engine 28"})))
    return answer.status_code, json.loads(bytes(answer.body))


async def ask(route: Any) -> Any:
    return await route()


def test_a_server_that_works_is_ready_and_says_what_it_found(pawl: Instance) -> None:
    status, body = ready(pawl)
    assert (status, body["status"], body["failed"]) == (200, "ready", [])
    assert body["checks"]["database"].startswith("a write takes ")
    assert body["checks"]["engine"].startswith("looked for work ")
    assert body["docker"] == "engine 28"
    with pawl.store.read() as session:
        assert session.exec(select(Setting).where(Setting.name == "probe.readyz")).one().value


def test_a_database_that_takes_no_writes_is_named(pawl: Instance, tmp_path: Path) -> None:
    closed = Store(tmp_path / "closed.db")
    closed.close()
    status, body = ready(pawl, database=lambda: check_database(closed.write))
    assert (status, body["status"], body["failed"]) == (503, "not ready", ["database"])
    assert "the store is closed" in body["checks"]["database"]
    assert "restart" in body["checks"]["database"]


def test_on_a_full_disk_both_the_disk_and_the_database_are_named(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "20m") as disk, instance(disk) as pawl:
        pawl.engine.tick()
        fill(disk)
        with pytest.raises(OperationalError):
            for number in range(1000):  # the database's log may have some room left
                row = Setting(name=f"filler-{number}", value="x" * 20_000)
                pawl.store.write(lambda s, row=row: s.add(row))  # type: ignore[misc]
        status, body = ready(pawl, disk=lambda: check_disk(room(disk), FULLEST, LEAST))
        assert (status, body["failed"]) == (503, ["database", "disk"])
        assert "disk is full" in body["checks"]["database"]
        assert "INSERT" not in body["checks"]["database"]
        (disk / "ballast").unlink()
        assert ready(pawl)[0] == 200


def test_an_engine_that_was_stopped_is_named(pawl: Instance) -> None:
    pawl.engine.stop()
    status, body = ready(pawl)
    assert (status, body["failed"]) == (503, ["engine"])
    assert body["checks"]["engine"] == "it has been stopped: restart the server"


def test_an_engine_that_fell_silent_is_named(
    pawl: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "SILENT_SECONDS", 0.6)
    stuck = threading.Event()
    monkeypatch.setattr(pawl.engine, "_look_for_work", lambda: stuck.wait(120))
    deadline = time.monotonic() + 60
    while (found := ready(pawl))[0] == 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    stuck.set()
    assert found[0] == 503 and found[1]["failed"] == ["engine"]
    assert "has not looked for work for" in found[1]["checks"]["engine"]


@pytest.mark.parametrize(
    "full",
    [
        Room(total=10**12, used=96 * 10**10, free=4 * 10**10),
        Room(total=10**9, used=9 * 10**8, free=10**8),
    ],
)
def test_a_disk_without_room_is_named_with_the_mend(pawl: Instance, full: Room) -> None:
    status, body = ready(pawl, disk=lambda: check_disk(full, FULLEST, LEAST))
    assert (status, body["failed"]) == (503, ["disk"])
    assert "python3 run.py clean" in body["checks"]["disk"]
    assert check_disk(ROOMY, FULLEST, LEAST) == "40% used, 60.0 GB free"


def test_a_check_that_hangs_is_named_and_does_not_pile_up(
    pawl: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LIMIT_SECONDS", 0.2)
    release, calls = threading.Event(), []

    def hang() -> str:
        calls.append(1)
        release.wait(120)
        return "at last"

    route = readyz({"database": hang}, {})

    async def ask_often() -> list[Any]:
        return [await route() for _ in range(3)]

    answers = asyncio.run(ask_often())
    release.set()
    assert [answer.status_code for answer in answers] == [503] * 3 and len(calls) == 1
    assert "no answer for" in json.loads(bytes(answers[-1].body))["checks"]["database"]


def test_strangers_cannot_make_it_write_without_end() -> None:
    calls: list[int] = []
    route = readyz({"database": lambda: str(calls.append(1))}, {"docker": lambda: "none"})

    async def ask_often() -> None:
        await asyncio.gather(*(route() for _ in range(50)))
        for _ in range(50):
            await route()

    began = time.monotonic()
    asyncio.run(ask_often())
    assert 1 <= len(calls) <= 1 + (time.monotonic() - began) / health.KEPT_SECONDS


def test_docker_is_only_told_about(pawl: Instance) -> None:
    def gone() -> str:
        raise NotReady("docker is not installed")

    answer = asyncio.run(ask(readyz({}, {"docker": gone})))
    assert answer.status_code == 200
    assert json.loads(bytes(answer.body))["docker"] == "docker is not installed"


def get(url: str) -> tuple[int, dict[str, Any]]:
    """A request of a stranger: no key, no cookie."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_a_real_server_answers_both_without_a_sign_in(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    try:
        assert get(f"{server.url}/healthz") == (200, {"status": "ok"})
        deadline = time.monotonic() + 60
        while (found := get(f"{server.url}/readyz"))[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.5)
        status, body = found
        assert set(body) == {"status", "failed", "checks", "docker"}
        assert (status, body["failed"]) == (200, []), body
        assert set(body["checks"]) == {"database", "disk", "engine"}
        assert str(tmp_path) not in json.dumps(body), "strangers learn no paths"
        assert (server.home.logs / "server.log").read_text().count("has the home") == 1
    finally:
        server.close()
