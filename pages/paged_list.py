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

    `table` draws rows, each with a `key`; `none` draws what stands there when nothing is found;
    `also` is what else they are drawn of, `total` how many there are where somebody has counted.
    """

    label: str
    path: str
    names: tuple[str, ...]
    read: Callable[[Caller, Asked, Pager], Page]
    rows: Callable[[Any], Rows]
    table: Callable[[Rows], ui.table]
    none: Callable[[Asked], None]
    also: Callable[[Any], object] = lambda _page: None
    total: Callable[[Any], int | None] = lambda _page: None


class PagedList:
    """One visitor's list. `asked` is what the address asks for; `told` is called at each look."""

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
        self._rows: Rows = []
        try:
            self.page = self._kind.read(self._visitor.caller, self.asked, self._pager)
            self._rows = self._kind.rows(self.page)
        except ServiceError as error:
            self.error = str(error)

    def refresh(self) -> None:
        """Read again and show what has changed; an open menu of a row stays open."""
        self.read()
        self.told()
        self._device.read()
        self._device.refresh()
        self._list.refresh()
        table = self._table
        if table is not None and not table.is_deleted and table.rows != self._rows:
            table.rows = self._rows

    def ask(self, *, replace: bool = False, **values: str) -> None:
        """List something else, from its first page; `replace` leaves no step to go back to."""
        if all(self.asked[name] == value for name, value in values.items()):
            return
        self.asked |= values
        self._pager.first()
        self._show(replace=replace)

    def _take(self, query: dict[str, str]) -> None:
        self.asked = {name: query.get(name, "")[:128] for name in self._kind.names}

    def _shown(self) -> object:
        """What the list is made of; what only moves inside its rows is put in without a redraw."""
        kind, page = self._kind, self.page
        keys = [row["key"] for row in self._rows]
        rest = (page.next_cursor, kind.total(page), kind.also(page)) if page else ()
        return (keys, rest, self.error, dict(self.asked), self._pager.start, self._pager.limit)

    def _draw(self) -> None:
        if self.error is not None or self.page is None:
            trouble(self.error or "The list could not be read.")
            again = ui.button("Retry", icon="sym_o_refresh", color=None, on_click=self._again)
            again.props("no-caps outline")
            return
        if not self._rows and not self._pager.start:
            self._kind.none(self.asked)
            return
        with box("pw-card pw-bare", "section").props(f'aria-label="{self._kind.label}"'):
            self._table = self._kind.table(self._rows)
            total = self._kind.total(self.page)
            self._pager.draw(len(self._rows), self.page.next_cursor, total)

    def _again(self) -> None:
        self.asked = dict.fromkeys(self._kind.names, "")
        self._pager.first()
        self._show()

    def _show(self, *, replace: bool = False) -> None:
        self._address.show({**self.asked, **self._pager.fields()}, replace=replace)
        self.refresh()

    def _went_back(self, query: dict[str, str]) -> None:
        self._take(query)
        self._pager.take(query)
        self.refresh()

    async def _look(self) -> bool:
        if self._visitor.still() is None:
            return False
        self.refresh()
        return True
