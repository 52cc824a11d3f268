"""The page Inference: the deployed versions, their states and addresses, and how they are called."""

import asyncio
from typing import Any

from nicegui import ui

from app.access import Access
from app.caller import Caller
from app.errors import ServiceError
from app.job_shapes import JobItem
from app.service import Service
from pages import endpoint_actions
from pages.acting import Acting
from pages.calling import snippets
from pages.deploy import deploy, of_base
from pages.endpoints_table import endpoints_table, row
from pages.frame import DeviceBox, Visitor, frame
from pages.live import Panel, Poll
from pages.parts import box, card, named, text, trouble

AT = "/inference"


async def inference_page(visitor: Visitor, service: Service, access: Access, url: str) -> None:
    """Build the page; `url` is how the visitor reaches this server."""
    page = InferencePage(visitor, service, url)
    await asyncio.to_thread(page.read)
    with frame(visitor, service, access.project_name(visitor.caller.project_id), AT) as device:
        page.build(device)


class InferencePage:
    """One visitor's view of what is deployed."""

    def __init__(self, visitor: Visitor, service: Service, url: str) -> None:
        self._visitor, self._service, self._url = visitor, service, url
        self._table: ui.table | None = None
        self._chosen = ""
        self._error: str | None = None
        self._jobs: list[JobItem] = []

    def build(self, device: DeviceBox) -> None:
        """Head, list, and how to call one of them."""
        self._device = device
        with box("pw-head pw-head-plain", "header"), box("pw-row pw-between"):
            text("Inference", "pw-h1", "h1")
            with box("pw-row"):
                again = ui.button("Refresh", icon="sym_o_refresh", color=None)
                again.props("no-caps outline").on_click(self.refresh)
                self._draw_bases()
        self._acting = Acting(
            visitor=self._visitor, service=self._service, place=box(), done=self._acted
        )
        with box("pw-page"):
            self._list = Panel(self._draw, self._shown)
            self._call = Panel(self._draw_call, self._names)
        Poll(self._look)

    def _draw_bases(self) -> None:
        """A menu of the base models: one that was added can be tried before anything is trained."""
        caller = self._visitor.caller
        if "deploy" not in caller.capabilities:
            return
        models = self._service.training_models(caller).items
        opener = ui.button("Deploy a base model", icon="sym_o_add")
        with opener.props("no-caps unelevated"), ui.menu():
            for name in (one.name for one in models if not one.simulated):
                item = ui.menu_item(name).classes("pw-item").mark(f"deploy-{name}")
                item.on_click(lambda name=name: deploy(self._acting, of_base(name)))

    async def refresh(self) -> None:
        """Read again and show what has changed; an open menu of a row stays open."""
        await asyncio.to_thread(self.read)
        await asyncio.to_thread(self._device.read)
        for part in (self._device, self._list, self._call):
            part.refresh()
        if self._table is not None and not self._table.is_deleted:
            rows = self._rows()
            if rows != self._table.rows:
                self._table.rows = rows

    def read(self) -> None:
        """Look at what is deployed; off the event loop, as every call ever made is counted."""
        try:
            self._jobs, self._error = self._service.endpoints(self._visitor.caller), None
        except ServiceError as error:
            self._jobs, self._error = [], str(error)

    def _names(self) -> list[str]:
        return [job.inference.model for job in self._jobs if job.inference is not None]

    def _shown(self) -> object:
        return ([job.job_id for job in self._jobs], self._error)

    def _rows(self) -> list[dict[str, Any]]:
        return [row(job, self._visitor.caller, self._url) for job in self._jobs]

    def _draw(self) -> None:
        if self._error is not None:
            trouble(self._error)
            again = ui.button("Retry", icon="sym_o_refresh", color=None, on_click=self.refresh)
            again.props("no-caps outline")
        elif not self._jobs:
            _nothing_deployed(self._visitor.caller)
        else:
            with box("pw-card pw-bare", "section").props('aria-label="Deployed versions"'):
                self._table = endpoints_table(self._rows())
                self._table.on("act", lambda event: self._act(event.args))
            with box(tag="p"):
                text("Those that were deleted or failed stand under ", "pw-2 pw-small")
                ui.link("Jobs", "/jobs?type=inference").classes("pw-small")

    def _draw_call(self) -> None:
        names = self._names()
        if not names:
            return
        if self._chosen not in names:
            self._chosen = names[0]
        with card("Call it from a program") as head:
            with head:
                box("pw-grow")
                choice = ui.select(names, value=self._chosen)
                named(choice.props("outlined dense options-dense"), "Version").mark("call-version")
                choice.on_value_change(lambda event: self._choose(str(event.value)))
            with box("pw-cb"):
                self._code = ui.refreshable(lambda: snippets(self._url, self._chosen))
                self._code()

    def _choose(self, name: str) -> None:
        self._chosen = name
        self._code.refresh()

    async def _act(self, asked: dict[str, Any]) -> None:
        """A choice in a row's menu; what came from the browser is looked up among what is here."""
        job = next((one for one in self._jobs if one.job_id == asked.get("key")), None)
        if job is not None:
            await endpoint_actions.act(self._acting, str(asked.get("action")), job, self._url)

    async def _acted(self) -> None:
        await self.refresh()

    async def _look(self) -> bool:
        if self._visitor.still() is None:
            return False
        await self.refresh()
        return True


def _nothing_deployed(caller: Caller) -> None:
    with box("pw-card pw-nothing", "section"):
        text("No version is deployed in this project", "pw-strong pw-ink", "div")
        about = "Deploy the best version of a run from its menu, or a checkpoint from the list."
        text(about, tag="div")
        if "deploy" not in caller.capabilities:
            text("It needs the right to deploy, which a developer has.", tag="div")
        with box("pw-row").style("justify-content: center; margin-top: 12px"):
            for path, word, sign in (
                ("/", "Model loops", "sym_o_model_training"),
                ("/checkpoints", "Checkpoints", "sym_o_deployed_code"),
            ):
                button = ui.button(word, icon=sign, color=None).props("no-caps outline")
                button.on_click(lambda _, path=path: ui.navigate.to(path))
