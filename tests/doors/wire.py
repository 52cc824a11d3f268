"""One HTTP request to the MCP path, written down byte by byte, and what came back."""

import http.client
import json
from dataclasses import dataclass
from typing import Any

from tests.server.process import Server

PATH = "/v1/agent-runs/rsi/mcp"
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True)
class Answer:
    """Status, headers (lower-case names) and body of an answer."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        """The body, which is JSON and says so."""
        assert self.headers["content-type"].startswith("application/json"), self
        return json.loads(self.raw)

    @property
    def fault(self) -> int:
        """The code of a JSON-RPC error."""
        return int(self.json["error"]["code"])


class Wire:
    """Sends to one server with one key; every part of a request can be changed or left out."""

    def __init__(self, server: Server, key: str) -> None:
        self.port, self._key = int(server.url.rpartition(":")[2]), key

    def send(
        self, body: Any = b"", method: str = "POST", path: str = PATH, **headers: str | None
    ) -> Answer:
        """Send `body` (bytes, or something for JSON); a header given as None is left out."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given: dict[str, str | None] = {
            "host": f"127.0.0.1:{self.port}",
            "authorization": f"Bearer {self._key}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(raw)),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(raw)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def old(self, method: str, **params: Any) -> Answer:
        """A request as the era with a handshake sends it after the handshake."""
        return self.send({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})

    def new(self, method: str, params: Any = None, **headers: str | None) -> Answer:
        """A request of the era without one."""
        given = {**(params or {}), "_meta": ENVELOPE}
        name = {"mcp_name": given["name"]} if "name" in given else {}
        said: dict[str, str | None] = {"mcp_protocol_version": MODERN, "mcp_method": method, **name}
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": given}
        return self.send(body, **{**said, **headers})
