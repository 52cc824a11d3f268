"""A server that is not Pawl: it answers as told and remembers what it was asked."""

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.listening import Listening


class Stranger(Listening):
    """Started on a free port; `asked` has (request line, headers) of every request.

    Every request is answered with `status` and `body`.
    """

    def __init__(self, body: Any = None, status: int = 200, kind: str = "application/json") -> None:
        self.body, self.status, self.kind = body, status, kind
        self.asked: list[tuple[str, dict[str, str]]] = []
        stranger = self

        class Handler(_Handler):
            owner = stranger

        super().__init__(Handler)


class _Handler(BaseHTTPRequestHandler):
    owner: Stranger

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.owner.asked.append((self.requestline, headers))
        body = self.owner.body
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(self.owner.status)
        self.send_header("Content-Type", self.owner.kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_POST = do_CONNECT = do_GET

    def log_message(self, *_: object) -> None:
        """Silent."""
