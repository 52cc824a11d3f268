"""How an open page stays up to date: it looks again while visible, and redraws what has changed."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from nicegui import ui

SECONDS = 3.0


class Part(Protocol):
    """Something on a page that can be brought up to date."""

    def refresh(self) -> None: ...


class Panel:
    """A part of a page that is drawn anew only when what it shows has changed."""

    def __init__(self, draw: Callable[[], None], shows: Callable[[], object]) -> None:
        self._shows = shows
        self._shown = shows()
        self._drawn = ui.refreshable(draw)
        self._drawn()

    def refresh(self) -> None:
        """Draw again if there is something new."""
        shows = self._shows()
        if shows != self._shown:
            self._shown = shows
            self._drawn.refresh()


def poll(look: Callable[[], Awaitable[bool]], seconds: float = SECONDS) -> None:
    """Call `look` every `seconds` while the page is visible, and at once when it becomes visible.

    It stops for good when `look` says False: nothing more is to come.
    """
    over = False

    async def tick() -> None:
        nonlocal over
        over = not await look()
        if over:
            timer.deactivate()

    async def visibility(visible: bool) -> None:
        if over:
            return
        if visible:
            timer.activate()
            await tick()
        else:
            timer.deactivate()

    timer = ui.timer(seconds, tick, immediate=False)
    ui.on("pawl-visible", lambda event: visibility(bool(event.args)))
