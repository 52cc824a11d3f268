"""Where the server answers: a free port, and the note that says so to the other commands."""

import json
import logging
import os
import sys
from pathlib import Path

from app.doctor import is_free
from data.files import write_durable
from data.home import Home
from data.tables import now

PORT_TAKEN = 3


def choose_port(host: str, wanted: int | None, ports: range) -> int:
    """The wanted port, else the first free one; exits with 3 and a way out when it is taken."""
    candidates = [wanted] if wanted else list(ports)
    for port in candidates:
        if is_free(port, host):
            return port
    taken = f"port {wanted}" if wanted else f"every port from {ports.start} to {ports.stop - 1}"
    who = f" (process {_holder(wanted)})" if wanted and _holder(wanted) else ""
    print(f"{taken} is taken{who}; choose another one with --port", file=sys.stderr)
    raise SystemExit(PORT_TAKEN)


def note_server(home: Home, url: str | None) -> None:
    """Write server.json: process, address and start of what holds the home; no url, no console."""
    note = {"pid": os.getpid(), "url": url, "started": now()}
    write_durable(home.server_json, json.dumps(note).encode())
    home.server_json.chmod(0o600)


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
