"""Where the server answers: a free port, and the note that says so to the other commands."""

import errno
import importlib
import json
import logging
import os
import socket
import sys
from pathlib import Path

from data.files import write_durable
from data.home import Home
from data.tables import now

PORT_TAKEN = 3


def listen(host: str, wanted: int | None, ports: range) -> socket.socket:
    """A socket that listens on the wanted port, else on the first free one.

    From here on nobody else can take the port. Exits with 3 and a way out when it is taken.
    """
    for port in [wanted] if wanted else ports:
        try:
            return _listener(host, port)
        except OverflowError:
            raise SystemExit(_cannot(f"{port} is no port; ports go up to 65535")) from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise SystemExit(_cannot(f"{host}:{port}: {error.strerror}")) from None
    taken = f"port {wanted}" if wanted else f"every port from {ports.start} to {ports.stop - 1}"
    who = f" (process {_holder(wanted)})" if wanted and _holder(wanted) else ""
    raise SystemExit(_cannot(f"{taken} is taken{who}"))


def _listener(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError):
        listener.close()
        raise
    return listener


def _cannot(why: str) -> int:
    print(f"{why}; choose another one with --port", file=sys.stderr)
    return PORT_TAKEN


def note_server(home: Home, url: str | None) -> None:
    """Write server.json: process, address and start of what holds the home; no url, no console."""
    note = {"pid": os.getpid(), "url": url, "started": now()}
    write_durable(home.server_json, json.dumps(note).encode())
    home.server_json.chmod(0o600)


def load_socket_server() -> None:
    """Import what carries the console's live connections, without the HTTP clients it can do without.

    It would load two of them for the side that connects, which a server never is: a seventh of the
    start.
    """
    clients = [name for name in ("aiohttp", "requests") if name not in sys.modules]
    for name in clients:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails, until below
    try:
        importlib.import_module("socketio")
    finally:
        for name in clients:
            del sys.modules[name]


def hush_disconnects() -> None:
    """Keep the web server's log free of browsers that leave before their answer is ready."""

    def is_news(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not (isinstance(error, RuntimeError) and str(error) == "No response returned.")

    logging.getLogger("uvicorn.error").addFilter(is_news)


def _holder(port: int) -> int | None:
    """The process of this user that listens on a port, where the system tells."""
    inodes = _listening(port)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = {os.readlink(link) for link in (process / "fd").iterdir()}
        except OSError:
            continue
        if links & {f"socket:[{inode}]" for inode in inodes}:
            return int(process.name)
    return None


def _listening(port: int) -> set[str]:
    """Inodes of the sockets that listen on a port."""
    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return set()
    fields = [line.split() for line in lines]
    return {f[9] for f in fields if f[3] == "0A" and int(f[1].rpartition(":")[2], 16) == port}
