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


class Poll:
    """Calls `look` every `seconds` while the page is visible, and at once when it becomes visible.

    It rests when `look` says False: nothing more is to come.
    """

    def __init__(self, look: Callable[[], Awaitable[bool]], seconds: float = SECONDS) -> None:
        self._look = look
        self._over = self._busy = self._again = False
        self._timer = ui.timer(seconds, self._tick, immediate=False)
        ui.on("pawlVisible", lambda event: self._visibility(bool(event.args)))

    async def go_on(self) -> None:
        """Look now, and go on looking: after all there is more to come."""
        self._over = False
        self._again = True  # a look under way may have read before there was
        self._timer.activate()
        await self._tick()

    async def _tick(self) -> None:
        if self._over or self._busy:  # two looks at once would both take the same news
            return
        self._busy = self._again = True
        try:
            over = False
            while self._again:
                self._again = False
                over = not await self._look()
            self._over = over
        finally:
            self._busy = False
        if self._over:
            self._timer.deactivate()

    async def _visibility(self, visible: bool) -> None:
        if visible and not self._over:
            self._timer.activate()
            await self._tick()
        else:
            self._timer.deactivate()
