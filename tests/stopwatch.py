"""Seconds that something took, without those in which the whole machine stood still."""

import threading
import time
from collections.abc import Callable

from tests.waiting import eventually


class Stopwatch:
    """It takes short naps: by how much one is late is what everybody here had to wait."""

    NAP = 0.05

    def __init__(self) -> None:
        self._began = self._since = time.monotonic()
        self._late, self._lock = 0.0, threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._nap, daemon=True).start()

    @property
    def seconds(self) -> float:
        """Since its start."""
        with self._lock:
            now = time.monotonic()
            return now - self._began - self._late - max(0.0, now - self._since - 2 * self.NAP)

    def stop(self) -> float:
        """The seconds; it counts no further."""
        seconds = self.seconds
        self._over.set()
        return seconds

    def _nap(self) -> None:
        while not self._over.wait(self.NAP):
            with self._lock:
                now = time.monotonic()
                self._late += max(0.0, now - self._since - 2 * self.NAP)
                self._since = now


def seconds_until(condition: Callable[[], bool]) -> float:
    """How long it takes until something comes true."""
    watch = Stopwatch()
    try:
        eventually(condition)
    finally:
        seconds = watch.stop()
    return seconds
