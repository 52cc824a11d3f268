"""A provider of models for tests: a real HTTP server with a ledger of its own, which is the truth.

It speaks the chat completions format. What it does with a request is up to `behave`, which gets the
request's body and names one of `BEHAVIOURS`. It counts a token for four bytes, and bills whatever it
has worked on, also when its answer never arrives.
"""

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.listening import Listening

INPUT, CACHED, OUTPUT = 3_000_000, 300_000, 15_000_000  # micro-dollars per million tokens
LONG_ABOVE, LONG_INPUT, LONG_OUTPUT = 4_000, 6_000_000, 22_500_000
BEHAVIOURS = (
    "answer",  # as agreed
    "no usage",  # an answer that does not say what it cost
    "broken",  # the connection is cut in the middle of the answer
    "silent",  # nothing comes for longer than anybody waits
    "only comments",  # signs of life for as long, and no answer
    "billed 429",  # refuses after having worked
    "billed 500",  # fails after having worked
    "401",  # refuses at once
    "overlong",  # sends, and bills, far more than was allowed
    "too long",  # bills more than was allowed, and says so
)


class FakeProvider(Listening):
    """Started on a free port; `billed` in micro-dollars and `requests` are what truly happened."""

    def __init__(
        self,
        behave: Callable[[dict[str, Any]], str] = lambda _: "answer",
        say: Callable[[dict[str, Any]], str] = lambda _: "42",
        cached: Callable[[int], int] = lambda tokens: 0,
    ) -> None:
        self.behave, self.say, self.cached = behave, say, cached
        self.billed = 0
        self.billed_for: Counter[str] = Counter()  # by the beginning of what was asked
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.did: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.silent_seconds = 3.0
        self.at_work = 0
        self.passed: Callable[[str], object] = lambda moment: None  # "read", "half", "whole"
        provider = self

        class Handler(_Handler):
            owner = provider

        super().__init__(Handler)
        self.base_url = f"{self.url}/v1"

    def rest(self) -> None:
        """Wait until nothing is worked on any more, whoever asked for it."""
        while self.at_work:
            time.sleep(0.01)

    def bill(self, tokens_in: int, tokens_out: int, words: str = "") -> dict[str, Any]:
        """Charge for work and give the usage record of it."""
        cached = self.cached(tokens_in)
        long = tokens_in > LONG_ABOVE
        fresh = (tokens_in - cached) * (LONG_INPUT if long else INPUT)
        out = tokens_out * (LONG_OUTPUT if long else OUTPUT)
        with self.lock:
            cost = -(-(fresh + cached * CACHED + out) // 1_000_000)
            self.billed += cost
            self.billed_for[words] += cost
        return {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


class _Handler(BaseHTTPRequestHandler):
    owner: FakeProvider
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        provider = self.owner
        with provider.lock:
            provider.at_work += 1
        try:
            self._work()
        finally:
            with provider.lock:
                provider.at_work -= 1

    def _work(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        provider = self.owner
        does = provider.behave(body)
        with provider.lock:
            provider.requests.append(body)
            provider.headers.append({k.lower(): v for k, v in self.headers.items()})
            provider.did[does] += 1
        self.close_connection = True
        if does == "401":
            self._fail(401)
            return
        text = provider.say(body)
        allowed = body["max_tokens"]
        tokens = min(allowed, -(-len(text.encode()) // 4))
        tokens = allowed * {"overlong": 40, "too long": 3}[does] if "long" in does else tokens
        usage = provider.bill(tokens_in(body), tokens, beginning(body))
        provider.passed("read")
        if does.startswith("billed"):
            self._fail(int(does.split()[1]))
        elif does == "silent":
            time.sleep(provider.silent_seconds)
        elif does == "only comments":
            self._comment(provider.silent_seconds)
        else:
            self._stream(does, "word " * tokens if does == "overlong" else text, usage)

    def _fail(self, status: int) -> None:
        answer = json.dumps({"error": {"message": "refused", "code": "refused"}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _stream(self, does: str, text: str, usage: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces(text, None if does == "no usage" else usage):
            if does == "broken" and '"stop"' in piece:
                return
            self._chunk(piece)
            if '"stop"' in piece:
                self.owner.passed("half")
        self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        self.owner.passed("whole")

    def _comment(self, seconds: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        until = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            while time.monotonic() < until:
                self.wfile.write(b": still at work\n\n")
                time.sleep(0.05)

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def log_message(self, *_: object) -> None:
        """Silent."""


def beginning(body: dict[str, Any]) -> str:
    """The first words of a request."""
    words: str = body["messages"][0]["content"]
    return words[:40]


def tokens_in(body: dict[str, Any]) -> int:
    """What the provider counts for a request."""
    return sum(4 + -(-len(one["content"].encode()) // 4) for one in body["messages"])


def pieces(text: str, usage: dict[str, Any] | None) -> Iterator[str]:
    """A streamed answer: two halves, the finish, then the usage."""
    half = len(text) // 2
    for part in (text[:half], text[half:]):
        yield _event([{"index": 0, "delta": {"content": part}, "finish_reason": None}], None)
    yield _event([{"index": 0, "delta": {}, "finish_reason": "stop"}], None)
    if usage is not None:
        yield _event([], usage)


def _event(choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> str:
    record = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1767225600,
        "model": "m",
        "choices": choices,
        "usage": usage,
    }
    return f"data: {json.dumps(record)}\n\n"
