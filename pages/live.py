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
    over = busy = False

    async def tick() -> None:
        nonlocal over, busy
        if over or busy:  # two looks at once would both take the same news
            return
        busy = True
        try:
            over = not await look()
        finally:
            busy = False
        if over:
            timer.deactivate()

    async def visibility(visible: bool) -> None:
        if visible and not over:
            timer.activate()
            await tick()
        else:
            timer.deactivate()

    timer = ui.timer(seconds, tick, immediate=False)
    ui.on("pawlVisible", lambda event: visibility(bool(event.args)))
