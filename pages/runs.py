"""The page Model loops: the list of runs with its search, its state filter, its pages."""

from typing import Any

from nicegui import ui

from app.access import Access
from app.errors import ServiceError
from app.service import Service
from app.shapes import RunPage
from pages.acting import Acting
from pages.actions import act
from pages.browser import Address
from pages.empty import no_match, no_runs
from pages.frame import DeviceBox, Visitor, frame
from pages.live import Panel, Poll
from pages.pager import Pager
from pages.parts import box, icon, text, trouble
from pages.runs_table import MENU, row, runs_table

STATES = {
    "": ("All", "all"),
    "active": ("Active", "active"),
    "paused": ("Paused", "paused"),
    "finished": ("Finished", "finished"),
    "stopped": ("Stopped", "stopped"),
    "failed": ("Failed", "failed"),
}


def runs_page(visitor: Visitor, service: Service, access: Access, query: dict[str, str]) -> None:
    """Build the page for one visitor; `query` is what the address asks for."""
    listing = Listing(visitor, service, query)
    with frame(visitor, service, access.project_name(visitor.caller.project_id)) as device:
        listing.build(device)


class Listing:
    """One visitor's list: the question that the address holds, and the page that answers it."""

    def __init__(self, visitor: Visitor, service: Service, query: dict[str, str]) -> None:
        self._visitor = visitor
        self._service = service
        self._all_columns = False
        self._table: ui.table | None = None
        self._pager = Pager(query, self._show)
        self._ask(query)
        self.read()

    def _ask(self, query: dict[str, str]) -> None:
        self.q = query.get("q", "")[:64]
        self.state = query.get("state", "") if query.get("state", "") in STATES else ""

    def read(self) -> None:
        """Ask the service; what it refuses stays as text to show."""
        self.error: str | None = None
        self.page: RunPage | None = None
        try:
            self.page = self._service.list_runs(
                self._visitor.caller,
                limit=self._pager.limit,
                cursor=self._pager.cursor,
                state=self.state or None,
                q=self.q or None,
            )
        except ServiceError as error:
            self.error = str(error)

    def build(self, device: DeviceBox) -> None:
        """Head, filter row, list."""
        self._device = device
        self._dialogs = box()  # outside of what is drawn anew
        with box("pw-head pw-head-plain", "header"), box("pw-row pw-between"):
            text("Model loops", "pw-h1", "h1")
            with box("pw-row"):
                button = ui.button(
                    "Refresh", icon="sym_o_refresh", color=None, on_click=self.refresh
                )
                button.props("no-caps outline")
                self._start = box()
                if "training.run" in self._visitor.caller.capabilities:
                    with self._start:
                        _start_button()
        with box("pw-page"):
            self._address = Address("/", self._went_back)
            with box("pw-row pw-wrap pw-filter").style("gap: 12px") as self._filter:
                self._search_field()
                self._segments = Panel(self._draw_segments, lambda: (self.state, self._counts))
                box("pw-grow")
                self._columns_button()
            self._list = Panel(self._draw_list, self._shown)
        self._only_with_runs()
        Poll(self._look)

    @property
    def _counts(self) -> dict[str, int]:
        return self.page.counts if self.page else {}

    @property
    def _has_runs(self) -> bool:
        return self.error is not None or self._counts.get("all", 0) > 0

    def _shown(self) -> object:
        """What the list is made of; what only moves inside its rows is put in without a redraw."""
        page = self.page
        runs = [run.run for run in page.items] if page else []
        rest = (page.hint, page.total, page.next_cursor, self._has_runs) if page else ()
        return (runs, rest, self.error, self._all_columns, self._pager.start, self._pager.limit)

    def refresh(self) -> None:
        """Read again and show what has changed."""
        self.read()
        self._device.read()
        self._device.refresh()
        self._only_with_runs()
        self._segments.refresh()
        self._list.refresh()
        if self.page and self._table is not None and not self._table.is_deleted:
            rows = self._rows(self.page)
            if rows != self._table.rows:
                self._table.rows = rows

    def _only_with_runs(self) -> None:
        """Without runs the page offers the demo as its one filled button, and nothing to filter."""
        self._filter.set_visibility(self._has_runs)
        self._start.set_visibility(self._has_runs)

    def _rows(self, page: RunPage) -> list[dict[str, Any]]:
        return [row(run, self._visitor.caller) for run in page.items]

    async def _acted(self) -> None:
        self.refresh()

    async def _act(self, asked: dict[str, Any]) -> None:
        """A choice in a row's menu; what came from the browser is looked at again."""
        acting = Acting(
            visitor=self._visitor, service=self._service, place=self._dialogs, done=self._acted
        )
        if asked.get("action") in MENU:
            await act(acting, str(asked["action"]), str(asked.get("run")))

    async def _look(self) -> bool:
        if self._visitor.still() is None:
            return False
        self.refresh()
        return True

    def _search_field(self) -> None:
        field = ui.input(placeholder="Search by run name", value=self.q)
        field.props('outlined dense clearable debounce=300 aria-label="Search by run name"')
        field.classes("pw-search").style("width: 240px")
        with field.add_slot("prepend"):
            icon("sym_o_search")
        with field.add_slot("append"):
            text("/", "pw-kbd pw-desk")
        field.on_value_change(lambda event: self._search(event.value or ""))
        self._field = field

    def _search(self, q: str) -> None:
        if q.strip() != self.q:
            self._go(q=q.strip(), state=self.state, replace=True)

    def _draw_segments(self) -> None:
        with box("pw-seg").props('role=group aria-label="State"'):
            for state, (word, key) in STATES.items():
                on = state == self.state
                button = box("pw-on" if on else "", "button")
                button.props(f"type=button aria-pressed={'true' if on else 'false'}")
                button.mark(f"state-{key}").on(
                    "click", lambda _, state=state: self._go(q=self.q, state=state)
                )
                with button:
                    text(word)
                    text(str(self._counts.get(key, 0)), "n")

    def _columns_button(self) -> None:
        button = ui.button("All columns", icon="sym_o_view_column", color=None)
        button.props("no-caps flat").classes("pw-flat pw-narrow-only")
        button.on_click(self._toggle_columns)

    def _toggle_columns(self) -> None:
        self._all_columns = not self._all_columns
        self._list.refresh()

    def _draw_list(self) -> None:
        if self.error is not None or self.page is None:
            trouble(self.error or "The list could not be read.")
            again = ui.button("Retry", icon="sym_o_refresh", color=None, on_click=self._clear)
            again.props("no-caps outline")
        elif not self._counts.get("all", 0):
            no_runs(self.page.hint, self._visitor, self._service)
        elif not self.page.items:
            no_match(self._clear)
        else:
            with box("pw-card pw-bare", "section").props('aria-label="Runs"'):
                rows = self._rows(self.page)
                self._table = runs_table(rows, all_columns=self._all_columns)
                self._table.on("act", lambda event: self._act(event.args))
                page = self.page
                self._pager.draw(len(page.items), page.next_cursor, page.total)

    def _clear(self) -> None:
        self._go(q="", state="")
        self._field.value = ""

    def _go(self, *, q: str, state: str, replace: bool = False) -> None:
        self._ask({"q": q, "state": state})
        self._pager.first()
        self._show(replace=replace)

    def _show(self, *, replace: bool = False) -> None:
        asked = {"q": self.q, "state": self.state, **self._pager.fields()}
        self._address.show(asked, replace=replace)
        self.refresh()

    def _went_back(self, query: dict[str, str]) -> None:
        self._ask(query)
        self._pager.take(query)
        self._field.value = self.q
        self.refresh()


def _start_button() -> None:
    button = ui.button("Start a run", icon="sym_o_add")
    button.props("no-caps unelevated").on_click(lambda: ui.navigate.to("/start"))
