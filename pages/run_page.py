"""The page of one run: a sticky header over its tabs, kept up to date while the run goes on."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from nicegui import ui

from app.access import Access
from app.errors import ServiceError
from app.service import Service
from app.shapes import RunDetail
from pages import audits, cost, directives, evaluations, overview, rounds
from pages.acting import Acting
from pages.actions import Buttons
from pages.frame import DeviceBox, Visitor, frame
from pages.live import Panel, Part, Poll
from pages.nothing import nothing
from pages.parts import box
from pages.place import Place
from pages.run_head import facts, title
from pages.run_view import Read, RunView
from pages.tab_bar import TabBar

TAKEN_UP_SECONDS = 15.0  # after a request the page looks at least as long, also at an ended run


@dataclass(kw_only=True, slots=True, frozen=True)
class Tab:
    """One tab: how it is drawn, what it counts, what it reads, its own fields of the address."""

    label: str
    panels: Callable[[RunView, Place], list[Part]]
    count: Callable[[RunDetail], int] | None = None
    also: Read | None = None
    names: tuple[str, ...] = ()


TABS = {
    "overview": Tab(label="Overview", panels=overview.panels, names=("kind", "role")),
    "evaluations": Tab(
        label="Evaluations",
        panels=evaluations.panels,
        count=lambda run: len(run.versions),
        names=("gate",),
    ),
    "rounds": Tab(label="Rounds", panels=rounds.panels, count=lambda run: len(run.rounds)),
    "audits": Tab(label="Audits", panels=audits.panels, count=lambda run: len(run.audits)),
    "directives": Tab(
        label="Owner directives",
        panels=directives.panels,
        count=lambda run: len(run.directives),
        also=RunView.read_directives,
    ),
    "cost": Tab(label="Cost", panels=cost.panels, also=RunView.read_cost, names=("by",)),
}
HEAD_LEAVES_OUT = {"versions", "rounds", "steps", "audits", "gate", "config", "directives"}


async def run_page(
    visitor: Visitor, service: Service, access: Access, run: str, query: dict[str, str]
) -> None:
    """Build the page; a run that this visitor cannot see gets the same words as a missing one."""
    refusal, view = "", None
    try:
        view = await asyncio.to_thread(RunView.read_first, visitor, service, run)
    except ServiceError as error:
        refusal = str(error)
    with frame(visitor, service, access.project_name(visitor.caller.project_id)) as device:
        if view is None:
            ui.status_code(404)
            nothing(refusal, "Its name may be mistyped, or it belongs to another project.")
        else:
            await RunPage(view, query, device).build()


class RunPage:
    """The header, the tabs, and the panels of the tab that is open."""

    def __init__(self, view: RunView, query: dict[str, str], device: DeviceBox) -> None:
        self.view = view
        self._query, self._device = query, device
        self._panels: list[Part] = []
        self._poll: Poll | None = None
        self._asked_at = float("-inf")

    async def build(self) -> None:
        """Draw header and tab, and keep both up to date until the run has ended."""
        view = self.view
        names = {name: tab.names for name, tab in TABS.items()}
        self.place = Place(f"/runs/{view.run}", self._query, names, lambda: self._tabs.follow())
        self._dialogs = box()  # outside of what is drawn anew
        acting = Acting(
            visitor=view.visitor, service=view.service, place=self._dialogs, done=self._acted
        )
        with box("pw-head", "header"):
            with box("pw-row pw-between pw-headrow"):
                with box("pw-grow"):
                    head = [Panel(lambda: title(view), self._head_shows)]
                buttons = [Buttons(acting, lambda: view.detail, "head")]
            head.append(Panel(lambda: facts(view), self._head_shows))
            labels = {name: tab.label for name, tab in TABS.items()}
            self._tabs = TabBar(self.place, labels, self._draw_tab, self._counts)
        with ui.footer().classes("pw-footbar"):
            buttons.append(Buttons(acting, lambda: view.detail, "foot"))
        self._head: list[Part] = [*head, *buttons, self._tabs]
        self._body = box("pw-page")
        view.show = self._show
        await self._draw_tab()
        if not view.ended:
            self._poll = Poll(self._look)

    def _head_shows(self) -> object:
        summary = self.view.detail.model_dump(exclude=HEAD_LEAVES_OUT)
        return (summary, self.view.ended)

    def _counts(self) -> dict[str, int]:
        run = self.view.detail
        return {name: tab.count(run) for name, tab in TABS.items() if tab.count is not None}

    async def _draw_tab(self) -> None:
        tab = TABS[self.place.tab]
        if tab.also is not None:
            try:
                await asyncio.to_thread(tab.also, self.view)
            except ServiceError as error:
                ui.notify(str(error), type="negative")
        if TABS[self.place.tab] is not tab:
            return  # somebody went on while this was read
        self._body.clear()
        with self._body:
            self._panels = tab.panels(self.view, self.place)

    async def _acted(self) -> None:
        """Something was asked of the run: look at once, and until it is taken up."""
        self._asked_at = time.monotonic()
        if self._poll is None:
            with self._dialogs:
                self._poll = Poll(self._look)
        await self._poll.go_on()

    async def _look(self) -> bool:
        """One look at the run: True while there is more to come."""
        if self.view.visitor.still() is None:
            return False
        asked = time.monotonic() - self._asked_at < TAKEN_UP_SECONDS
        try:
            await asyncio.to_thread(self._read, asked)
        except ServiceError as error:
            ui.notify(str(error), type="negative")
            return False
        self._show()
        return asked or not self.view.ended

    def _show(self) -> None:
        for part in (self._device, *self._head, *self._panels):
            part.refresh()

    def _read(self, whole: bool) -> None:
        self.view.read(TABS[self.place.tab].also, whole=whole)
        self._device.read()
