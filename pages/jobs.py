"""The page Jobs: the list of jobs with its filters by type and status."""

from typing import Any

from nicegui import ui

from app.access import Access
from app.caller import Caller
from app.errors import ServiceError
from app.job_shapes import JobPage
from app.job_status import STATUSES
from app.service import Service
from pages.acting import Acting
from pages.empty import nothing_listed
from pages.frame import Visitor, frame
from pages.job_actions import stop_job
from pages.jobs_table import jobs_table, row
from pages.live import Panel
from pages.paged_list import Asked, Kind, PagedList, Rows
from pages.pager import Pager
from pages.parts import box, named, segments, text

AT = "/jobs"
TYPES = {"": "All", "train": "Training", "inference": "Inference"}


def jobs_page(visitor: Visitor, service: Service, access: Access, query: dict[str, str]) -> None:
    """Build the page for one visitor; `query` is what the address asks for."""
    page = JobsPage(visitor, service, query)
    with frame(visitor, service, access.project_name(visitor.caller.project_id), AT) as device:
        with box("pw-head pw-head-plain", "header"), box("pw-row pw-between"):
            text("Jobs", "pw-h1", "h1")
            page.buttons()
        with box("pw-page"):
            page.filters()
            page.listed.build(device)


class JobsPage:
    """One visitor's list, its filters, and what is done from its rows."""

    def __init__(self, visitor: Visitor, service: Service, query: dict[str, str]) -> None:
        self._visitor, self._service = visitor, service
        kind = Kind(
            label="Jobs",
            path=AT,
            names=("type", "status"),
            read=self._read,
            rows=self._rows,
            table=self._table,
            none=self._none,
        )
        self.listed = PagedList(visitor, kind, _known(query))

    def buttons(self) -> None:
        """What the head offers."""
        self._dialogs = box()
        with box("pw-row"):
            again = ui.button("Refresh", icon="sym_o_refresh", color=None)
            again.props("no-caps outline").on_click(lambda: self.listed.refresh())
            if "training.run" in self._visitor.caller.capabilities:
                train = ui.button("Train by hand", icon="sym_o_add")
                train.props("no-caps unelevated").on_click(lambda: ui.navigate.to("/train"))

    def filters(self) -> None:
        """Type and status; both live in the address."""
        with box("pw-row pw-wrap pw-filter").style("gap: 12px"):
            self._segments = Panel(self._draw_types, lambda: self.listed.asked["type"])
            states = {"": "Any status", **{name: name for name in STATUSES}}
            self._status = ui.select(states, value=self.listed.asked["status"])
            self._status.props("outlined dense options-dense").style("width: 150px")
            named(self._status, "Status").mark("status")
            self._status.on_value_change(lambda event: self.listed.ask(status=str(event.value)))
        self.listed.told = self._told

    def _told(self) -> None:
        self._segments.refresh()
        self._status.value = self.listed.asked["status"]

    def _draw_types(self) -> None:
        segments("Type", TYPES, self.listed.asked["type"], lambda name: self.listed.ask(type=name))

    def _read(self, caller: Caller, asked: Asked, pager: Pager) -> JobPage:
        return self._service.list_jobs(
            caller,
            type=asked["type"] or None,
            status=asked["status"] or None,
            limit=pager.limit,
            cursor=pager.cursor,
        )

    def _rows(self, page: JobPage) -> Rows:
        return [row(job, self._visitor.caller) for job in page.items]

    def _table(self, rows: Rows) -> ui.table:
        return jobs_table(rows).on("act", lambda event: self._act(event.args))

    def _none(self, asked: Asked) -> None:
        if any(asked.values()):
            nothing_listed(
                "No match for this filter",
                "No job of this project has that type and status.",
                clear=lambda: self.listed.ask(type="", status=""),
            )
        else:
            nothing_listed(
                "No jobs in this project yet",
                "Every round of a run makes one; a training by hand and a deployment too.",
            )

    async def _act(self, asked: dict[str, Any]) -> None:
        """A choice in a row's menu; what came from the browser is looked at again."""
        job = str(asked.get("key"))
        if asked.get("action") == "open":
            ui.navigate.to(f"/jobs/{job}")
            return
        caller = self._visitor.still()
        if caller is None or asked.get("action") != "stop":
            return
        try:
            item = self._service.job(caller, job)
        except ServiceError as error:
            ui.notify(str(error), type="negative")
            return
        acting = Acting(
            visitor=self._visitor, service=self._service, place=self._dialogs, done=self._acted
        )
        stop_job(acting, item)

    async def _acted(self) -> None:
        self.listed.refresh()


def _known(query: dict[str, str]) -> dict[str, str]:
    """The query without a type or status that there is none of."""
    known = dict(query)
    if known.get("type", "") not in TYPES:
        known["type"] = ""
    if known.get("status", "") not in STATUSES:
        known["status"] = ""
    return known
