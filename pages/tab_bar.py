"""The tabs in the head of a page; which of them is open stands in the address."""

from collections.abc import Awaitable, Callable, Mapping

from nicegui import ui

from pages.parts import box, text
from pages.place import Place


class TabBar:
    """`labels` has the tabs by name, `counts` numbers beside some; `draw` shows the open one."""

    def __init__(
        self,
        place: Place,
        labels: Mapping[str, str],
        draw: Callable[[], Awaitable[None]],
        counts: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._place, self._labels, self._draw, self._counts = place, labels, draw, counts
        self._numbers: dict[str, ui.label] = {}
        tabs = ui.tabs(on_change=lambda event: self._open(str(event.value)))
        tabs.props("no-caps dense align=left inline-label indicator-color=primary breakpoint=0")
        with tabs.classes("pw-tabs"):
            for name, label in labels.items():
                with ui.tab(name, label="").props("ripple=false"), box("q-tab__label", "span"):
                    text(label)
                    if name in counts():
                        self._numbers[name] = text("", "n")
        self.refresh()
        tabs.value = place.tab
        self._tabs = tabs

    def refresh(self) -> None:
        """Show the numbers of now."""
        for name, count in self._counts().items():
            self._numbers[name].text = str(count)

    async def follow(self) -> None:
        """Show the tab that the address leads to."""
        self._tabs.value = self._place.tab
        await self._draw()

    async def _open(self, tab: str) -> None:
        if tab != self._place.tab and tab in self._labels:
            self._place.open(tab)
            await self._draw()
