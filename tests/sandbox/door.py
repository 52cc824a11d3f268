"""A door in front of the machine's Docker engine, which a test may shut as if the engine had died."""

import socket
import threading
from pathlib import Path

from engine.sandbox.docker_engine import SOCKET

ENGINE = SOCKET.removeprefix("unix://")


class Door:
    """Listens on a socket and hands everything on to the engine, both ways."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.host = f"unix://{path}"
        self._ends: list[socket.socket] = []
        self._listener: socket.socket | None = None

    def open(self) -> None:
        """Let callers in."""
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen()
        threading.Thread(target=self._take, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        """Every connection breaks, and nobody gets in."""
        if self._listener is not None:
            _break(self._listener)
        while self._ends:
            _break(self._ends.pop())

    def _take(self, listener: socket.socket) -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(ENGINE)
            self._ends += [caller, engine]
            for one, other in ((caller, engine), (engine, caller)):
                threading.Thread(target=_hand_on, args=(one, other), daemon=True).start()


def _hand_on(one: socket.socket, other: socket.socket) -> None:
    """What comes from one goes to the other, its end as well."""
    try:
        while piece := one.recv(65536):
            other.sendall(piece)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def _break(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:  # it had ended by itself
        pass
    end.close()
