"""Chats one after another: `python -m tests.bench.rollout_chats ADDRESS KEY MODEL COUNT TOKENS`.

ADDRESS is a URL, or `unix:` and the path of a socket. Prints the mean seconds of a chat and what
was answered. The first chat warms up, and waits for an endpoint that is still starting.
"""

import json
import sys
import time

import httpx

from engine.types import Ask
from tests.bench.rollout_asks import answer_asks

PATIENCE_SECONDS = 1200.0


def main(address: str, key: str, model: str, count: str, tokens: str) -> None:
    """Ask and print what it took."""
    asks = answer_asks(int(count), int(tokens))
    with client_at(address, key) as client:
        chat(client, model, asks[0])
        began = time.perf_counter()
        came = [chat(client, model, ask) for ask in asks]
        seconds = (time.perf_counter() - began) / len(asks)
    print(json.dumps({"seconds": seconds, "came": came}))


def client_at(address: str, key: str) -> httpx.Client:
    """A client that keeps its connection."""
    kind, _, path = address.partition(":")
    transport = httpx.HTTPTransport(uds=path) if kind == "unix" else None
    return httpx.Client(
        base_url="http://vllm" if kind == "unix" else address,
        transport=transport,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=PATIENCE_SECONDS,
    )


def chat(client: httpx.Client, model: str, ask: Ask) -> str:
    """One greedy answer."""
    body = {"messages": ask.messages, "max_tokens": ask.max_tokens, "temperature": 0}
    answer = client.post("/v1/chat/completions", json={**body, "model": model})
    if answer.status_code != 200:
        raise SystemExit(f"{answer.status_code}: {answer.text}")
    return str(answer.json()["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main(*sys.argv[1:])
