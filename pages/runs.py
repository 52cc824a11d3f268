"""The page Model loops: the list of runs with its search, its state filter, its pages."""

from typing import Any, cast

from nicegui import ui

from app.access import Access
from app.caller import Caller
from app.service import Service
from app.shapes import RunPage
from pages.acting import Acting
from pages.empty import no_runs, nothing_listed
from pages.frame import Visitor, frame
from pages.live import Panel
from pages.paged_list import Asked, Kind, PagedList, Rows
from pages.pager import Pager
from pages.parts import box, icon, segments, text
from pages.runs_table import MENU, row, runs_table

STATES = {
    "": "All",
    "active": "Active",
    "paused": "Paused",
    "finished": "Finished",
    "stopped": "Stopped",
    "failed": "Failed",
}


def runs_page(visitor: Visitor, service: Service, access: Access, query: dict[str, str]) -> None:
    """Build the page for one visitor; `query` is what the address asks for."""
    page = RunsPage(visitor, service, query)
    with frame(visitor, service, access.project_name(visitor.caller.project_id)) as device:
        page.place = box()  # of dialogs, outside of what is drawn anew
        with box("pw-head pw-head-plain", "header"), box("pw-row pw-between"):
            text("Model loops", "pw-h1", "h1")
            page.buttons()
        with box("pw-page"):
            page.filters()
            page.listed.build(device)


class RunsPage:
    """One visitor's list, its filters, and what is done from its rows."""

    place: ui.element

    def __init__(self, visitor: Visitor, service: Service, query: dict[str, str]) -> None:
        self._visitor, self._service = visitor, service
        self._all_columns = False
        kind = Kind(
            label="Runs",
            path="/",
            names=("q", "state"),
            read=self._read,
            rows=self._rows,
            table=self._table,
            none=self._none,
            also=lambda page: (page.hint, self._all_columns),
            total=lambda page: page.total,
        )
        known = query.get("state", "") in STATES
        self.listed = PagedList(visitor, kind, query if known else {**query, "state": ""})

    def buttons(self) -> None:
        """What the head offers."""
        with box("pw-row"):
            again = ui.button("Refresh", icon="sym_o_refresh", color=None)
            again.props("no-caps outline").on_click(lambda: self.listed.refresh())
            self._start = box()
            if "training.run" in self._visitor.caller.capabilities:
                with self._start:
                    start = ui.button("Start a run", icon="sym_o_add")
                    start.props("no-caps unelevated").on_click(lambda: ui.navigate.to("/start"))

    def filters(self) -> None:
        """Search and state; both live in the address."""
        with box("pw-row pw-wrap pw-filter").style("gap: 12px") as self._filter:
            self._search_field()
            self._segments = Panel(
                self._draw_states, lambda: (self.listed.asked["state"], self._counts)
            )
            box("pw-grow")
            columns = ui.button("All columns", icon="sym_o_view_column", color=None)
            columns.props("no-caps flat").classes("pw-flat pw-narrow-only")
            columns.on_click(self._toggle_columns)
        self.listed.told = self._told
        self._told()

    def _told(self) -> None:
        """Without runs the page offers the demo as its one filled button, and nothing to filter."""
        has_runs = self.listed.error is not None or self._counts.get("all", 0) > 0
        self._filter.set_visibility(has_runs)
        self._start.set_visibility(has_runs)
        self._segments.refresh()
        if (self._field.value or "").strip() != self.listed.asked["q"]:
            self._field.value = self.listed.asked["q"]

    @property
    def _counts(self) -> dict[str, int]:
        return cast(RunPage, self.listed.page).counts if self.listed.page else {}

    def _search_field(self) -> None:
        field = ui.input(placeholder="Search by run name", value=self.listed.asked["q"])
        field.props('outlined dense clearable debounce=300 aria-label="Search by run name"')
        field.classes("pw-search").style("width: 240px")
        with field.add_slot("prepend"):
            icon("sym_o_search")
        with field.add_slot("append"):
            text("/", "pw-kbd pw-desk")
        field.on_value_change(
            lambda event: self.listed.ask(q=(event.value or "").strip(), replace=True)
        )
        self._field = field

    def _draw_states(self) -> None:
        chosen = self.listed.asked["state"]
        segments("State", STATES, chosen, lambda state: self.listed.ask(state=state), self._counts)

    def _toggle_columns(self) -> None:
        self._all_columns = not self._all_columns
        self.listed.refresh()

    def _read(self, caller: Caller, asked: Asked, pager: Pager) -> RunPage:
        return self._service.list_runs(
            caller,
            limit=pager.limit,
            cursor=pager.cursor,
            state=asked["state"] or None,
            q=asked["q"] or None,
        )

    def _rows(self, page: RunPage) -> Rows:
        return [row(run, self._visitor.caller) for run in page.items]

    def _table(self, rows: Rows) -> ui.table:
        table = runs_table(rows, all_columns=self._all_columns)
        return table.on("act", lambda event: self._act(event.args))

    def _none(self, _asked: Asked) -> None:
        if self._counts.get("all", 0):
            nothing_listed(
                "No match for this filter",
                "There are runs in this project; none fits the search and state.",
                clear=lambda: self.listed.ask(q="", state=""),
            )
        else:
            hint = cast(RunPage, self.listed.page).hint
            no_runs(hint, self._visitor, self._service)

    async def _act(self, asked: dict[str, Any]) -> None:
        """A choice in a row's menu; what came from the browser is looked at again."""
        from pages.actions import act  # nobody needs it before the first page is there

        acting = Acting(
            visitor=self._visitor, service=self._service, place=self.place, done=self._acted
        )
        if asked.get("action") in MENU:
            await act(acting, str(asked["action"]), str(asked.get("run")))

    async def _acted(self) -> None:
        self.listed.refresh()
