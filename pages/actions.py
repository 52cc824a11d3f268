"""The buttons of a run: in its head on a desk, in a foot on a phone, in a row's menu in the list."""

import asyncio
from collections.abc import Callable
from functools import partial

from nicegui import ui

from app.caller import Caller
from app.errors import ServiceError
from app.shapes import Live, RunDetail, RunSummary
from pages import run_dialogs
from pages.acting import Acting
from pages.browser import address
from pages.deploy import deploy, of_run
from pages.live import Panel
from pages.offers import Offer, offers
from pages.parts import box, icon, text

MENU = frozenset({"new", "deploy", "download"})
DIALOGS: dict[str, Callable[[Acting, RunDetail, Live], None]] = {
    "steer": run_dialogs.steer,
    "stop": run_dialogs.stop,
    "resume": run_dialogs.resume,
    "extend": run_dialogs.extend,
}


async def act(acting: Acting, action: str, run: str) -> None:
    """Open what an action on a run needs: a dialog over the run as it is now, or the start form."""
    if action == "new":
        ui.navigate.to(address("/start", {"from": run}))
        return
    caller = acting.visitor.still()
    if caller is None:
        return
    try:
        detail = await asyncio.to_thread(acting.service.run_detail, caller, run)
        if action == "download":
            download(acting, caller, detail)
            return
        if action == "deploy":
            await deploy(acting, of_run(detail))
            return
        live = await asyncio.to_thread(acting.service.run_live, caller, run, 0, 1, True)
    except ServiceError as error:
        ui.notify(str(error), type="negative")
        return
    with acting.place:
        DIALOGS[action](acting, detail, live)


def download(acting: Acting, caller: Caller, run: RunDetail) -> None:
    """Hand the weights of the best version over as one archive."""
    named = f"tinker://{run.run}/weights/{run.best_version}"
    ui.navigate.to(acting.service.checkpoint_links(caller, "", named).zip)


class Buttons:
    """The actions of a run's page, in its head or its foot, drawn anew only when they change."""

    def __init__(self, acting: Acting, run: Callable[[], RunSummary], where: str) -> None:
        self._acting, self._run, self._where = acting, run, where
        self._panel = Panel(self._draw, self._offers)

    def refresh(self) -> None:
        """Offer what the run's state allows now."""
        self._panel.refresh()

    def _offers(self) -> list[Offer]:
        return offers(self._run(), self._acting.visitor.caller)

    def _draw(self) -> None:
        found = self._offers()
        with box(f"pw-actions {'pw-desk' if self._where == 'head' else ''}"):
            for offer in found:
                if offer.action not in MENU:
                    self._button(offer)
            rest = [offer for offer in found if offer.action in MENU]
            if rest:
                self._menu(rest)

    def _button(self, offer: Offer) -> None:
        color = "negative" if offer.action == "stop" else None
        with box("pw-may", "span") as around:
            button = ui.button(offer.word, icon=offer.icon, color=color)
            button.props("no-caps outline").mark(f"{self._where}-{offer.action}")
            button.on_click(partial(self._act, offer.action))
            if offer.why_not:
                button.disable()
                around.props["title"] = offer.why_not

    def _menu(self, rest: list[Offer]) -> None:
        with ui.button(icon="sym_o_more_vert", color=None) as button:
            button.props('flat no-caps aria-label="More actions"').classes("pw-flat pw-icon")
            with ui.menu():
                for offer in rest:
                    with ui.menu_item().classes("pw-item") as item:
                        icon(offer.icon)
                        text(offer.word)
                    item.on_click(partial(self._act, offer.action))

    async def _act(self, action: str) -> None:
        await act(self._acting, action, self._run().run)
