"""The page of one run: a sticky header over its tabs, kept up to date while the run goes on."""

import asyncio
from collections.abc import Callable

from nicegui import ui

from app.access import Access
from app.errors import ServiceError
from app.service import Service
from pages import evaluations, overview, rounds
from pages.browser import Address
from pages.frame import Visitor, frame
from pages.live import Panel, Part, poll
from pages.parts import box, icon, text, trouble
from pages.run_head import head
from pages.run_view import RunView

TABS = {"overview": "Overview", "evaluations": "Evaluations", "rounds": "Rounds"}
ALIASES = {"live": "overview"}


async def run_page(
    visitor: Visitor, service: Service, access: Access, run: str, query: dict[str, str]
) -> None:
    """Build the page; a run that this visitor cannot see gets the same words as a missing one."""
    refusal, view = "", None
    try:
        view = await asyncio.to_thread(RunView.read_first, visitor, service, run)
    except ServiceError as error:
        refusal = str(error)
    with frame(visitor, service, access.project_name(visitor.caller.project_id)):
        if view is None:
            _not_here(refusal)
        else:
            RunPage(view, query).build()


def _not_here(message: str) -> None:
    ui.status_code(404)
    with box("pw-head pw-head-plain", "header"):
        text("Run", "pw-h1", "h1")
    with box("pw-page"):
        trouble(message)
        with ui.link(target="/"):
            icon("sym_o_arrow_back")
            text(" All model loops")


class RunPage:
    """The header, the tabs, and the panels of the tab that is open."""

    def __init__(self, view: RunView, query: dict[str, str]) -> None:
        self.view = view
        self.tab = tab_of(query)
        self._panels: list[Part] = []
        self._counts: list[tuple[ui.label, Callable[[], int]]] = []

    def build(self) -> None:
        """Draw header and tab, and keep both up to date until the run has ended."""
        self._address = Address(f"/runs/{self.view.run}", self._went_back)
        with box("pw-head", "header"):
            self._head = Panel(lambda: head(self.view), self._head_shows)
            self._tabs()
        self._body = box("pw-page")
        self._draw_tab()
        if not self.view.ended:
            poll(self._look)

    def _head_shows(self) -> object:
        summary = self.view.detail.model_dump(exclude=HEAD_LEAVES_OUT)
        return (summary, self.view.ended)

    def _tabs(self) -> None:
        tabs = ui.tabs(on_change=lambda event: self._open(str(event.value)))
        tabs.props("no-caps dense align=left inline-label indicator-color=primary breakpoint=0")
        tabs.classes("pw-tabs")
        with tabs:
            for name, label in TABS.items():
                with ui.tab(name, label="").props("ripple=false"), box("q-tab__label", "span"):
                    text(label)
                    self._tab_count(name)
        tabs.value = self.tab
        self._tab_bar = tabs

    def _tab_count(self, name: str) -> None:
        """The number beside a tab's name, for the tabs that count something."""
        numbers: dict[str, Callable[[], int]] = {
            "evaluations": lambda: len(self.view.detail.versions),
            "rounds": lambda: len(self.view.detail.rounds),
        }
        if name in numbers:
            self._counts.append((text(str(numbers[name]()), "n"), numbers[name]))

    def _open(self, tab: str) -> None:
        if tab == self.tab or tab not in TABS:
            return
        self.tab = tab
        self._address.show({"tab": None if tab == "overview" else tab})
        self._draw_tab()

    def _went_back(self, query: dict[str, str]) -> None:
        self.tab = tab_of(query)
        self._tab_bar.value = self.tab
        self._draw_tab()

    def _draw_tab(self) -> None:
        self._body.clear()
        with self._body:
            self._panels = PANELS[self.tab](self.view)

    async def _look(self) -> bool:
        """One look at the run: True while there is more to come."""
        if self.view.visitor.still() is None:
            return False
        try:
            await asyncio.to_thread(self.view.read)
        except ServiceError as error:
            ui.notify(str(error), type="negative")
            return False
        for panel in (self._head, *self._panels):
            panel.refresh()
        for label, number in self._counts:
            label.text = str(number())
        return not self.view.ended


PANELS: dict[str, Callable[[RunView], list[Part]]] = {
    "overview": overview.panels,
    "evaluations": evaluations.panels,
    "rounds": rounds.panels,
}
HEAD_LEAVES_OUT = {"versions", "rounds", "steps", "audits", "gate", "config", "directives"}


def tab_of(query: dict[str, str]) -> str:
    """The tab that an address asks for; an unknown one is the overview."""
    asked = query.get("tab", "overview")
    name = ALIASES.get(asked, asked)
    return name if name in TABS else "overview"
