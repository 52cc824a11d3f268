"""Removes the containers that a server which died has left, at start and every 30 s.

It speaks to the engine's socket itself: the client library is too heavy for a server that may
never need a sandbox.
"""

import http.client
import json
import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from engine.sandbox.docker_engine import CALL_SECONDS, SOCKET
from engine.sandbox.flags import LABEL
from engine.sandbox.owner import is_left_behind, mark

log = logging.getLogger(__name__)

SECONDS = 30.0


class Reaper:
    """Looks after the containers of one home, from `start` to `stop`, on a thread of its own."""

    def __init__(self, home: Path, seconds: float = SECONDS) -> None:
        self._home, self._seconds = home, seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="reaper", daemon=True)
        self._said = ""  # the last complaint, told once

    def start(self) -> None:
        """Begin, with a first look at once."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a call to the engine that is under way is not waited for."""
        self._stopped.set()
        self._thread.join(timeout=1.0)

    def _loop(self) -> None:
        while not self._stopped.is_set():
            try:
                sweep(self._home)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._complain(f"sandboxes left behind cannot be cleared away: {error}")
            self._stopped.wait(self._seconds)

    def _complain(self, text: str) -> None:
        if text != self._said:
            log.info(text)
        self._said = text


def sweep(home: Path) -> int:
    """Remove the containers of `home` whose process has ended or whose time is over; how many.

    OSError, HTTPException or ValueError when no engine answers as it should; a container that it
    does not remove keeps none of the others.
    """
    removed = 0
    failure: Exception | None = None
    wanted = json.dumps({"label": [f"app={LABEL}"]})
    for one in json.loads(ask("GET", f"/containers/json?all=1&filters={quote(wanted)}")):
        if is_over(one["Labels"], home):
            try:
                ask("DELETE", f"/containers/{one['Id']}?force=1&v=1")
                removed += 1
            except (OSError, http.client.HTTPException) as error:
                failure = error
    if removed:
        log.warning("%d sandboxes that nobody owned any more were removed", removed)
    if failure is not None:
        raise failure
    return removed


def is_over(labels: dict[str, str], home: Path) -> bool:
    """Whether a container of ours has no business any more; another home's is not ours."""
    instance, deadline = labels.get("instance", ""), labels.get("deadline", "")
    if not instance.startswith(f"{mark(home)}-"):
        return False
    late = deadline.isdigit() and int(deadline) < time.time()
    return late or is_left_behind(instance, home)


def ask(method: str, path: str) -> bytes:
    """What the engine answers; a container that has gone meanwhile is no failure."""
    connection = _connection()
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    gone = method == "DELETE" and answer.status in (404, 409)  # or being removed
    if answer.status >= 400 and not gone:
        raise OSError(f"the Docker engine answered {answer.status}: {body[:200].decode()}")
    return body


def _connection() -> http.client.HTTPConnection:
    host = urlsplit(os.environ.get("DOCKER_HOST") or SOCKET)
    if host.scheme == "unix":
        return _OverSocket(host.path)
    if host.scheme in ("tcp", "http") and not os.environ.get("DOCKER_TLS_VERIFY"):
        return http.client.HTTPConnection(host.hostname or "", host.port, timeout=CALL_SECONDS)
    raise OSError(f"DOCKER_HOST is {host.geturl()}, which only a socket or plain TCP may be")


class _OverSocket(http.client.HTTPConnection):
    """HTTP to a socket in the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CALL_SECONDS)
        self._path = path

    def connect(self) -> None:
        door: Any = socket.socket(socket.AF_UNIX)
        try:
            door.settimeout(self.timeout)
            door.connect(self._path)
        except OSError:
            door.close()
            raise
        self.sock = door
