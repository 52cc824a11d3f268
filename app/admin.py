"""The administration socket: commands from this machine to the server that holds the home.

One JSON line in, one JSON line out, over a Unix socket that its owner alone can open.
"""

import json
import logging
import os
import socket
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.errors import InvalidRequest, ServiceError, Unavailable

log = logging.getLogger(__name__)

Command = Callable[..., Any]
LINE = 64 * 1024
LONGEST_PATH = 103  # bytes that every system takes for the name of a Unix socket


class AdminSocket:
    """Answers `commands` by name until closed."""

    def __init__(self, path: Path, commands: dict[str, Command]) -> None:
        self._path = path
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise SystemExit(f"{path} is too long for a socket: set PAWL_HOME to a shorter path")
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = _Server(str(path), _Exchange)
        finally:
            os.umask(before)
        self._server.commands = commands
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering and remove the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


def call_admin(path: Path, command: str, **arguments: Any) -> Any:
    """What the running server answers; the same errors as the service, Unavailable without one."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        try:
            connection.connect(str(path))
        except OSError:
            raise Unavailable(f"no server answers at {path}: start one with run.py") from None
        connection.sendall(json.dumps([command, arguments]).encode() + b"\n")
        with connection.makefile("r") as lines:
            line = lines.readline()
    if not line:
        raise ServiceError("the server ended before it answered; see whether it was done")
    reply = json.loads(line)
    if "error" in reply:
        raise ServiceError(reply["error"])
    return reply["result"]


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    commands: dict[str, Command]


class _Exchange(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        try:
            reply = {"result": self._answer(self.rfile.readline(LINE))}
        except ServiceError as error:
            reply = {"error": str(error)}
        except Exception:
            log.exception("an administration command broke")
            reply = {"error": "the command broke; see the server's log"}
        self.wfile.write(json.dumps(reply).encode() + b"\n")

    def _answer(self, line: bytes) -> Any:
        name, arguments = json.loads(line)
        if name not in self.server.commands:
            raise InvalidRequest(f"no administration command {name}")
        return self.server.commands[name](**arguments)
