"""Counts the requests that a process is answering, and lets somebody be alone with it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class InFlight:
    """Many may be inside at once, or one alone.

    Whoever wants to be alone keeps new ones out from that moment and waits for those inside.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._wanting_alone = 0
        self._alone = False

    def enter(self) -> None:
        """Come in; waits while somebody is alone or wants to be."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._wanting_alone)
            self._inside += 1

    def leave(self) -> None:
        """Go out again."""
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be inside for a while."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def alone(self, seconds: float | None = None) -> Iterator[bool]:
        """Be the only one inside, once those who are have left; False when they had not in time."""
        with self._changed:
            self._wanting_alone += 1
            try:
                found = self._changed.wait_for(
                    lambda: not self._alone and not self._inside, seconds
                )
                self._alone = self._alone or found
            finally:
                self._wanting_alone -= 1
                self._changed.notify_all()
        try:
            yield found
        finally:
            if found:
                with self._changed:
                    self._alone = False
                    self._changed.notify_all()
