"""Answers of deployed versions over REST: who waits for a turn holds up no answer under way."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from app.access import Access
from app.guard import Guard
from app.ports import Lent
from app.rest import late
from app.rest.completions import CALLERS
from app.service import Service
from data.home import Home
from data.store import Store
from tests.pages.parrot import deploy_version

MODEL, PORT = "sums-1/candidate-1", 8710
ASKED: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
PATIENCE = 60.0  # seconds


class Busy:
    """Has one answer under way, and whoever asks for another waits for `turn`."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.begun, self.turn, self.closed = (threading.Event() for _ in range(3))

    def ask(self, job: str, route: str, body: Mapping[str, Any], *more: Any) -> dict[str, Any]:
        self.waiting.release()
        self.turn.wait(2 * PATIENCE)
        return {"choices": []}

    def stream(self, *asked: Any) -> "Busy":
        self._pieces = iter(range(4))
        self.begun.set()
        return self

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        piece = next(self._pieces)
        if piece == 1:  # from here on everybody else waits
            for _ in range(CALLERS):
                self.waiting.acquire(timeout=PATIENCE)
        return {"piece": piece}

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def busy() -> Busy:
    return Busy()


@pytest.fixture
async def client(
    home: Home, store: Store, access: Access, busy: Busy
) -> AsyncIterator[httpx.AsyncClient]:
    """A program with the owner's key, before a server on which a version is deployed."""
    store.write(lambda session: deploy_version(session, "e-1", MODEL))
    service = Service(store, "CPU")
    service.lend(Lent(busy, {}))
    web = Starlette()
    late.mount(web, service)
    guard = Guard(web, access=access, port=PORT)
    key = home.owner_key.read_text().strip()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(guard),
        base_url=f"http://127.0.0.1:{PORT}/v1",
        headers={"Authorization": f"Bearer {key}"},
    ) as made:
        yield made


async def test_callers_who_wait_hold_up_no_answer_under_way(
    client: httpx.AsyncClient, busy: Busy
) -> None:
    def call(**more: Any) -> "asyncio.Task[httpx.Response]":
        return asyncio.create_task(client.post("/chat/completions", json=ASKED | more))

    streamed = call(stream=True)
    assert await asyncio.to_thread(busy.begun.wait, PATIENCE)
    waiting = [call() for _ in range(CALLERS)]
    try:
        answer = await asyncio.wait_for(streamed, PATIENCE)
        assert not any(one.done() for one in waiting)
        assert answer.text.count('"piece"') == 4 and answer.text.endswith("[DONE]\n\n")
        assert await asyncio.to_thread(busy.closed.wait, PATIENCE)
    finally:
        busy.turn.set()
    assert {one.status_code for one in await asyncio.gather(*waiting)} == {200}


@pytest.mark.parametrize("word", ["true", 1, []])
async def test_stream_is_true_or_false(client: httpx.AsyncClient, word: Any) -> None:
    answer = await client.post("/chat/completions", json=ASKED | {"stream": word})
    told = answer.json()
    assert answer.status_code == 400 and told["message"] == "stream: give true or false"
    assert told["error"]["code"] == "invalid_request"
