"""The page Checkpoints: what was trained in the project and is whole on disk."""

from typing import Any

from nicegui import ui

from app.access import Access
from app.caller import Caller
from app.job_shapes import CheckpointPage
from app.service import Service
from pages.acting import Acting
from pages.checkpoint_actions import act
from pages.checkpoints_table import checkpoints_table, row
from pages.empty import nothing_listed
from pages.frame import Visitor, frame
from pages.paged_list import Asked, Kind, PagedList, Rows
from pages.pager import Pager
from pages.parts import box, icon, text

AT = "/checkpoints"


def checkpoints_page(
    visitor: Visitor, service: Service, access: Access, query: dict[str, str]
) -> None:
    """Build the page for one visitor; `query` is what the address asks for."""
    page = CheckpointsPage(visitor, service, query)
    with frame(visitor, service, access.project_name(visitor.caller.project_id), AT) as device:
        with box("pw-head pw-head-plain", "header"), box("pw-row pw-between"):
            text("Checkpoints", "pw-h1", "h1")
            again = ui.button("Refresh", icon="sym_o_refresh", color=None)
            again.props("no-caps outline").on_click(lambda: page.listed.refresh())
        page.place = box()  # of dialogs, outside of what is drawn anew
        with box("pw-page"):
            page.filters()
            page.listed.build(device)


class CheckpointsPage:
    """One visitor's list, and what is done from its rows."""

    place: ui.element

    def __init__(self, visitor: Visitor, service: Service, query: dict[str, str]) -> None:
        self._visitor, self._service = visitor, service
        kind = Kind(
            label="Checkpoints",
            path=AT,
            names=("run",),
            read=self._read,
            rows=self._rows,
            table=self._table,
            none=self._none,
        )
        self.listed = PagedList(visitor, kind, query)

    def filters(self) -> None:
        """The run whose checkpoints are shown; it lives in the address."""
        with box("pw-row pw-wrap pw-filter"):
            field = ui.input(placeholder="Of the run", value=self.listed.asked["run"])
            field.props('outlined dense clearable debounce=400 aria-label="Of the run"')
            field.classes("pw-search").style("width: 240px").mark("run-filter")
            with field.add_slot("prepend"):
                icon("sym_o_search")
            field.on_value_change(lambda event: self.listed.ask(run=(event.value or "").strip()))
        self._field = field
        self.listed.told = self._told

    def _told(self) -> None:
        if (self._field.value or "").strip() != self.listed.asked["run"]:
            self._field.value = self.listed.asked["run"]

    def _read(self, caller: Caller, asked: Asked, pager: Pager) -> CheckpointPage:
        run = asked["run"] or None
        return self._service.checkpoints(caller, run=run, limit=pager.limit, cursor=pager.cursor)

    def _rows(self, page: CheckpointPage) -> Rows:
        return [row(item, self._visitor.caller) for item in page.items]

    def _table(self, rows: Rows) -> ui.table:
        return checkpoints_table(rows).on("act", lambda event: self._act(event.args))

    def _none(self, asked: Asked) -> None:
        if asked["run"]:
            nothing_listed(
                f"No checkpoints of {asked['run']}",
                "The filter takes a run's whole id; a dry run trains nothing.",
                clear=lambda: self.listed.ask(run=""),
            )
        else:
            nothing_listed(
                "No checkpoints in this project yet",
                "Each round of a run that trains leaves one, and so does a training by hand.",
            )

    async def _act(self, asked: dict[str, Any]) -> None:
        acting = Acting(
            visitor=self._visitor, service=self._service, place=self.place, done=self._acted
        )
        page = self.listed.page
        await act(acting, asked, list(page.items) if page else [])

    async def _acted(self) -> None:
        self.listed.refresh()
