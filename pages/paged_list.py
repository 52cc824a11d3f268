"""A list that is read page by page: its place in the address, its rows, and what stands in for none."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nicegui import ui

from app.caller import Caller
from app.errors import ServiceError
from pages.browser import Address
from pages.frame import DeviceBox, Visitor
from pages.live import Panel, Poll
from pages.pager import Pager
from pages.parts import box, trouble

Asked = dict[str, str]
Rows = list[dict[str, Any]]


class Page(Protocol):
    """A page of a list as the service gives it."""

    items: Any
    next_cursor: str | None


@dataclass(kw_only=True, slots=True, frozen=True)
class Kind:
    """What is listed: `names` are the fields of the address that choose, `read` asks the service.

    `table` draws rows, each with a `key`; `none` draws what stands there when nothing is found.
    """

    label: str
    path: str
    names: tuple[str, ...]
    read: Callable[[Caller, Asked, Pager], Page]
    rows: Callable[[Any], Rows]
    table: Callable[[Rows], ui.table]
    none: Callable[[Asked], None]


class PagedList:
    """One visitor's list. `asked` is what the address asks for; `told` is called when it changes."""

    def __init__(self, visitor: Visitor, kind: Kind, query: dict[str, str]) -> None:
        self._visitor, self._kind = visitor, kind
        self._pager = Pager(query, self._show)
        self._table: ui.table | None = None
        self.told: Callable[[], None] = lambda: None
        self._take(query)
        self.read()

    def build(self, device: DeviceBox) -> None:
        """Draw the list, and keep it up to date while it is looked at."""
        self._device = device
        self._address = Address(self._kind.path, self._went_back)
        self._list = Panel(self._draw, self._shown)
        Poll(self._look)

    def read(self) -> None:
        """Ask the service; what it refuses stays as text to show."""
        self.error: str | None = None
        self.page: Page | None = None
        try:
            self.page = self._kind.read(self._visitor.caller, self.asked, self._pager)
        except ServiceError as error:
            self.error = str(error)

    def refresh(self) -> None:
        """Read again and show what has changed; an open menu of a row stays open."""
        self.read()
        self._device.read()
        self._device.refresh()
        self._list.refresh()
        if self.page and self._table is not None and not self._table.is_deleted:
            rows = self._kind.rows(self.page)
            if rows != self._table.rows:
                self._table.rows = rows

    def ask(self, **values: str) -> None:
        """List something else, from its first page."""
        if all(self.asked[name] == value for name, value in values.items()):
            return
        self.asked |= values
        self._pager.first()
        self._show()

    def _take(self, query: dict[str, str]) -> None:
        self.asked = {name: query.get(name, "")[:128] for name in self._kind.names}

    def _shown(self) -> object:
        keys = [row["key"] for row in self._kind.rows(self.page)] if self.page else []
        more = self.page.next_cursor if self.page else None
        return (keys, more, self.error, dict(self.asked), self._pager.start, self._pager.limit)

    def _draw(self) -> None:
        if self.error is not None or self.page is None:
            trouble(self.error or "The list could not be read.")
            again = ui.button("Retry", icon="sym_o_refresh", color=None, on_click=self._again)
            again.props("no-caps outline")
            return
        rows = self._kind.rows(self.page)
        if not rows and not self._pager.start:
            self._kind.none(self.asked)
            return
        with box("pw-card pw-bare", "section").props(f'aria-label="{self._kind.label}"'):
            self._table = self._kind.table(rows)
            self._pager.draw(len(rows), self.page.next_cursor)

    def _again(self) -> None:
        self.asked = dict.fromkeys(self._kind.names, "")
        self._pager.first()
        self._show()

    def _show(self) -> None:
        asked = {name: value or None for name, value in self.asked.items()}
        self._address.show({**asked, **self._pager.fields()})
        self.told()
        self.refresh()

    def _went_back(self, query: dict[str, str]) -> None:
        self._take(query)
        self._pager.take(query)
        self.told()
        self.refresh()

    async def _look(self) -> bool:
        if self._visitor.still() is None:
            return False
        self.refresh()
        return True
