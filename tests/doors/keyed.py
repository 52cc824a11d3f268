"""A way to a server for clients that cannot send a key: everything is passed on with one."""

import http.client
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler

from tests.listening import Listening

HOPS = {"connection", "transfer-encoding", "content-length", "date", "server"}


class Keyed(Listening):
    """Started on a free port; Host and Origin arrive as they were sent."""

    def __init__(self, port: int, key: str) -> None:
        class Handler(_Handler):
            goal, authorization = port, f"Bearer {key}"

        super().__init__(Handler)


class _Handler(BaseHTTPRequestHandler):
    goal: int
    authorization: str
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        onward = http.client.HTTPConnection("127.0.0.1", self.goal, timeout=60)
        onward.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in _kept(self.headers.items()):
            onward.putheader(name, value)
        onward.putheader("Authorization", self.authorization)
        onward.putheader("Content-Length", str(len(body)))
        onward.endheaders(body)
        answer = onward.getresponse()
        raw = answer.read()
        onward.close()
        self.send_response(answer.status)
        for name, value in _kept(answer.getheaders()):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_DELETE = do_OPTIONS = do_PUT = do_POST

    def log_message(self, *_: object) -> None:
        """Silent."""


def _kept(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in HOPS]
