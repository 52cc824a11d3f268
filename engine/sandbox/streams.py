"""The streams of a container: frames in, frames out, with a deadline that the host owns."""

import json
import socket
import struct
import time
from typing import Any

from engine.sandbox.docker_engine import SandboxLost

HEADER = struct.Struct(">BxxxI")  # which stream, how many bytes: Docker's own framing
LENGTH = struct.Struct(">I")
MOST_FRAME = 8 << 20  # 1 MiB of output, of which JSON may make six times as much
STDOUT = 1


class TooLate(Exception):
    """The deadline passed before the frame was whole."""


class Streams:
    """One attached container. What it writes to standard error is not kept."""

    def __init__(self, attached: Any) -> None:
        self._attached = attached  # keeps the socket open
        self._socket: socket.socket = getattr(attached, "_sock", attached)
        self._raw, self._out = b"", b""

    def send(self, record: dict[str, Any]) -> None:
        """Write one frame; SandboxLost when nobody reads."""
        data = json.dumps(record).encode()
        try:
            self._socket.settimeout(10)
            self._socket.sendall(LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise SandboxLost(f"the container does not read: {error}") from None

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next frame; TooLate after `seconds`, SandboxLost when the container has gone."""
        deadline = time.monotonic() + seconds
        head = self._take(LENGTH.size, deadline)
        length = LENGTH.unpack(head)[0]
        if length > MOST_FRAME:
            raise SandboxLost("the container sent something that is no frame")
        found: dict[str, Any] = json.loads(self._take(length, deadline))
        return found

    def read(self, seconds: float, most: int) -> tuple[bytes, bool]:
        """Standard output until its end, at most `most` bytes; whether it ended by itself."""
        deadline = time.monotonic() + seconds
        while len(self._out) <= most:
            try:
                if not self._more(deadline):
                    return self._out, True
            except TooLate:
                break
        return self._out[:most], False

    def write(self, data: bytes) -> None:
        """Standard input, then its end."""
        try:
            self._socket.sendall(data)
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:  # it ended without reading: its answer says how
            pass

    def close(self) -> None:
        """Let go of the connection."""
        try:
            self._attached.close()
            self._socket.close()
        except OSError:
            pass

    def _take(self, count: int, deadline: float) -> bytes:
        while len(self._out) < count:
            if not self._more(deadline):
                raise SandboxLost("the container ended")
        taken, self._out = self._out[:count], self._out[count:]
        return taken

    def _more(self, deadline: float) -> bool:
        """Read once from the socket; False at its end."""
        wait = deadline - time.monotonic()
        if wait <= 0:
            raise TooLate
        self._socket.settimeout(wait)
        try:
            piece = self._socket.recv(65536)
        except TimeoutError:
            raise TooLate from None
        except OSError as error:
            raise SandboxLost(f"the connection to the container broke: {error}") from None
        self._raw += piece
        self._unwrap()
        return bool(piece)

    def _unwrap(self) -> None:
        while len(self._raw) >= HEADER.size:
            stream, length = HEADER.unpack(self._raw[: HEADER.size])
            if len(self._raw) < HEADER.size + length:
                return
            if stream == STDOUT:
                self._out += self._raw[HEADER.size : HEADER.size + length]
            self._raw = self._raw[HEADER.size + length :]
