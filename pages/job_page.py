"""The page of one job: its result, its checkpoints, its log as it grows, when it entered which state."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from nicegui import ui

from app.access import Access
from app.errors import ServiceError
from app.job_status import ACTIVE
from app.service import Service
from pages import job_result, states, words
from pages.acting import Acting
from pages.browser import When
from pages.deployment import deployment_card
from pages.frame import DeviceBox, Visitor, frame
from pages.job_actions import stop_job
from pages.job_checkpoints import checkpoints_card
from pages.job_log import LogCard
from pages.job_progress import progress_card
from pages.job_view import JobView, Read
from pages.jobs_table import about, label, model, type_of
from pages.live import Panel, Part, Poll
from pages.nothing import nothing
from pages.parts import box, fact, pill, simulated_chip, text
from pages.place import Place
from pages.spans import seconds_between
from pages.tab_bar import TabBar

AT = "/jobs"
Panels = Callable[[JobView, Place, Acting], list[Part]]


@dataclass(kw_only=True, slots=True, frozen=True)
class Tab:
    """One tab: how it is drawn, what it reads, its own fields of the address."""

    label: str
    panels: Panels
    also: Read | None = None
    names: tuple[str, ...] = ()
    of_loops: bool = False  # for jobs of a run alone
    types: tuple[str, ...] = ("train", "inference", "agent", "sandbox")


def _result(view: JobView, _place: Place, _acting: Acting) -> list[Part]:
    if view.item.inference is not None:
        return [Panel(lambda: deployment_card(view.item), lambda: view.item)]
    figures = Panel(lambda: job_result.result_cards(view), lambda: (view.item, view.result))
    return [job_result.ProgressCard(view), figures]


def _checkpoints(view: JobView, _place: Place, acting: Acting) -> list[Part]:
    return [Panel(lambda: checkpoints_card(view, acting), lambda: view.checkpoints)]


def _log(view: JobView, place: Place, _acting: Acting) -> list[Part]:
    return [LogCard(view, place)]


def _events(view: JobView, _place: Place, _acting: Acting) -> list[Part]:
    return [Panel(lambda: job_result.events_card(view), lambda: view.events)]


def _progress(view: JobView, _place: Place, _acting: Acting) -> list[Part]:
    return [Panel(lambda: progress_card(view), lambda: view.loop)]


TABS = {
    "overview": Tab(label="Result", panels=_result, also=JobView.read_result),
    "checkpoints": Tab(
        label="Checkpoints",
        panels=_checkpoints,
        also=JobView.read_checkpoints,
        types=("train",),
    ),
    "log": Tab(
        label="Log", panels=_log, also=JobView.read_log, names=("source",), types=("train",)
    ),
    "events": Tab(label="Events", panels=_events, also=JobView.read_events),
    "loop": Tab(label="Loop progress", panels=_progress, also=JobView.read_loop, of_loops=True),
}


async def job_page(
    visitor: Visitor, service: Service, access: Access, job: str, query: dict[str, str]
) -> None:
    """Build the page; a job of another project gets the same words as a missing one."""
    refusal, view = "", None
    try:
        view = await asyncio.to_thread(JobView.read_first, visitor, service, job)
    except ServiceError as error:
        refusal = str(error)
    with frame(visitor, service, access.project_name(visitor.caller.project_id), AT) as device:
        if view is None:
            ui.status_code(404)
            why = "Its id may be mistyped, or it belongs to another project."
            nothing(refusal, why, back=("/jobs", "All jobs"))
        else:
            await JobPage(view, query, device).build()


class JobPage:
    """The header, the tabs, and what the open tab shows."""

    def __init__(self, view: JobView, query: dict[str, str], device: DeviceBox) -> None:
        self._view, self._query, self._device = view, query, device
        looped = label(view.item, "run") is not None
        self._tabs = {
            name: tab
            for name, tab in TABS.items()
            if view.item.type in tab.types and (looped or not tab.of_loops)
        }
        self._panels: list[Part] = []

    async def build(self) -> None:
        """Draw everything, and keep it up to date until the job has ended."""
        view = self._view
        names = {name: tab.names for name, tab in self._tabs.items()}
        path = f"/jobs/{view.job}"
        self._place = Place(path, self._query, names, lambda: self._tab_bar.follow())
        self._acting = Acting(
            visitor=view.visitor, service=view.service, place=box(), done=self._look_now
        )
        with box("pw-head", "header"):
            with box("pw-row pw-between pw-headrow"):
                with box("pw-grow"):
                    head = Panel(self._draw_title, lambda: view.item)
                buttons = Panel(self._draw_buttons, lambda: view.item.status)
            facts = Panel(self._draw_facts, lambda: view.item)
            self._tab_bar = TabBar(self._place, self._labels(), self._draw_tab)
        self._head: list[Part] = [head, buttons, facts]
        self._body = box("pw-page")
        await self._draw_tab()
        self._poll = Poll(self._look)

    def _draw_title(self) -> None:
        job = self._view.item
        with box("pw-crumb"):
            ui.link("Jobs", "/jobs")
            text(" /")
        with box("pw-row pw-wrap").style("gap: 4px 12px"):
            text(job.job_id, "pw-h1", "h1")
            pill(states.of(states.JOBS, job.status))
            if job.training and job.training.simulated:
                simulated_chip()
            if job.training and job.training.bookkeeping:
                text("Nothing trained", "pw-chip")
        if job.reason:
            text(job.reason, "pw-reason", "div")

    def _draw_buttons(self) -> None:
        job, caller = self._view.item, self._view.visitor.caller
        with box("pw-actions"):
            if job.type == "inference" and job.status in ACTIVE:
                chat = ui.button("Chat", icon="sym_o_forum", color=None).props("no-caps outline")
                chat.on_click(lambda: ui.navigate.to(f"/inference/{job.job_id}"))
            if job.status in ACTIVE and "training.stop" in caller.capabilities:
                stop = ui.button("Stop…", icon="sym_o_stop_circle", color="negative")
                stop.props("no-caps outline").mark("stop").set_enabled(job.status != "cancelling")
                stop.on_click(lambda: stop_job(self._acting, job))

    def _draw_facts(self) -> None:
        job = self._view.item
        run, number = label(job, "run"), label(job, "round")
        with box("pw-facts", "dl"):
            fact("Type", f"{type_of(job)}, {about(job)}")
            if run is not None:
                with box("pw-fact"):
                    text("Run", tag="dt")
                    with box(tag="dd"):
                        ui.link(run, f"/runs/{run}")
                        text(f"round {number}" if number else "", "pw-2")
            fact("Model", model(job) or words.DASH)
            fact("Took", words.duration(seconds_between(job.created_at, job.finished_at)))
            with box("pw-fact pw-desk"):
                text("Created", tag="dt")
                with box(tag="dd"):
                    When(job.created_at).classes("pw-2")

    def _labels(self) -> dict[str, str]:
        labels = {name: tab.label for name, tab in self._tabs.items()}
        return labels | ({"overview": "Deployment"} if self._view.item.inference else {})

    async def _draw_tab(self) -> None:
        name = self._place.tab
        tab = self._tabs[name]
        await self._read_for(tab)
        if self._place.tab != name:
            return  # somebody went on while this was read
        self._body.clear()
        with self._body:
            self._panels = tab.panels(self._view, self._place, self._acting)

    async def _read_for(self, tab: Tab) -> bool:
        """Read what the tab shows; False, and the reason said, when that was refused."""
        try:
            await asyncio.to_thread(self._view.read, tab.also)
        except ServiceError as error:
            ui.notify(str(error), type="negative")
            return False
        return True

    async def _look_now(self) -> None:
        await self._poll.go_on()

    async def _look(self) -> bool:
        """One look at the job: True while there is more to come."""
        if self._view.visitor.still() is None:
            return False
        if not await self._read_for(self._tabs[self._place.tab]):
            return False
        self._device.read()
        for part in (self._device, *self._head, *self._panels):
            part.refresh()
        return not self._view.over
