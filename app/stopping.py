"""SIGTERM and Ctrl-C: the first one ends things in order, the second one at once."""

import os
import signal
from collections.abc import Callable
from types import FrameType


class Stopping:
    """Takes both signals over in the main thread, for as long as the process lives.

    The first one calls what `also` was given, then raises KeyboardInterrupt where the program is,
    or calls `gently` instead when an event loop is there. At the second one the process is gone at
    once; its children end with it by their own means, its work is taken up at the next start.
    """

    def __init__(self) -> None:
        self.gently: Callable[[], None] | None = None
        self._also: list[Callable[[], None]] = []
        self.asked = False
        self.take_over()

    def take_over(self) -> None:
        """Handle both signals here; again after something else has put its handlers in."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def also(self, call: Callable[[], None]) -> None:
        """Call this first, at the first signal: something short."""
        self._also.append(call)

    def go_on(self) -> bool:
        """True until the first signal, then KeyboardInterrupt: asked at quiet places.

        The one that a signal raises is lost where Python happens to run a clean-up of its own.
        """
        if self.asked:
            raise KeyboardInterrupt
        return True

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.asked:
            os._exit(128 + number)
        self.asked = True
        for call in self._also:
            call()
        if self.gently is None:
            raise KeyboardInterrupt
        self.gently()
