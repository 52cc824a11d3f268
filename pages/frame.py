"""The frame around every page: drawer, header bar on a phone, theme, who is signed in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from nicegui import ui
from starlette.requests import Request

from app.caller import Caller
from app.errors import ServiceError
from app.service import Service
from app.shapes import Device
from pages import device_box, look
from pages.browser import Theme
from pages.live import Panel
from pages.parts import box, icon, text

EXPERIMENT = {
    "/jobs": ("Jobs", "sym_o_work"),
    "/checkpoints": ("Checkpoints", "sym_o_deployed_code"),
    "/inference": ("Inference", "sym_o_dns"),
}
SETTINGS = {
    "/settings/keys": ("Keys", "sym_o_key"),
    "/settings/people": ("People", "sym_o_group"),
    "/settings/connect": ("Connect", "sym_o_cable"),
}


@dataclass(kw_only=True, slots=True, frozen=True)
class Visitor:
    """Who looks at a page: the caller that the guard let in, and the way to ask again."""

    caller: Caller
    recheck: Callable[[], Caller | None]

    @classmethod
    def of(cls, request: Request) -> "Visitor":
        """The visitor behind a page request."""
        return cls(caller=request.state.caller, recheck=request.state.recheck)

    def still(self) -> Caller | None:
        """The caller as of now; None, and on to the sign-in page, once signed out."""
        caller = self.recheck()
        if caller is None:
            ui.navigate.to("/sign-in")
        return caller


@contextmanager
def frame(visitor: Visitor, service: Service, project: str, at: str = "/") -> Iterator["DeviceBox"]:
    """Everything around a page's own content; `at` is the entry of the drawer that it is under.

    The device box comes back, so that a page which looks again keeps it up to date.
    """
    Theme()
    drawer = ui.left_drawer().props("width=208 breakpoint=1023")
    with ui.header().classes("pw-topbar"):
        menu = ui.button(icon="sym_o_menu", color=None, on_click=drawer.toggle)
        menu.props('flat no-caps aria-label="Menu"').classes("pw-flat pw-icon")
        _brand()
        box("pw-grow")
        _theme_button()
    with drawer:
        _brand()
        with box("pw-project"):
            text("Local workspace", "pw-l2")
            text(project, "pw-strong pw-ell", "div")
        text("RSI LOOPS", "pw-nav-h", "div")
        with _entry("/", "Model", "sym_o_model_training", at):
            text(_run_count(visitor.caller, service), "n")
        text("Experiment", "pw-nav-h", "div")
        for path, (word, icon_name) in EXPERIMENT.items():
            _entry(path, word, icon_name, at)
        text("Settings", "pw-nav-h", "div")
        for path, (word, icon_name) in SETTINGS.items():
            if path != "/settings/people" or "admin" in visitor.caller.capabilities:
                _entry(path, word, icon_name, at)
        device = DeviceBox(visitor, service)
        _person(visitor.caller)
    yield device


def _entry(path: str, word: str, icon_name: str, at: str) -> ui.link:
    with ui.link(target=path).classes("pw-nav") as entry:
        icon(icon_name)
        text(word)
    if path == at:
        entry.classes("pw-on").props("aria-current=page")
    return entry


def _brand() -> None:
    with ui.link(target="/").classes("pw-brand").props('aria-label="Pawl, model loops"'):
        look.mark()
        text("pawl", "pw-word")


def _run_count(caller: Caller, service: Service) -> str:
    try:
        return str(service.list_runs(caller, limit=1).counts["all"] or "")
    except ServiceError:
        return ""


def _person(caller: Caller) -> None:
    with box("pw-whoami"):
        with box("pw-grow"):
            with ui.link(target="/settings/account").classes("pw-strong pw-ell pw-ink"):
                text(caller.actor)
            text(_role(caller), "pw-l2")
        _theme_button()
        out = ui.button(icon="sym_o_logout", color=None)
        out.props('flat no-caps aria-label="Sign out" title="Sign out"').classes("pw-flat pw-sm")
        out.on("click", js_handler="() => pawl.signOut()")


def _theme_button() -> None:
    """Auto, light, dark; kept in a cookie of the browser, so that the first paint is right."""
    button = ui.button(icon="sym_o_contrast", color=None)
    button.props('flat no-caps data-pawl-theme aria-label="Theme"').classes("pw-flat pw-sm pw-icon")
    button.on("click", js_handler="() => pawl.nextTheme()")


def _role(caller: Caller) -> str:
    if "admin" in caller.capabilities:
        return "Admin"
    return "Developer" if "training.run" in caller.capabilities else "Viewer"


class DeviceBox:
    """Who holds the device and who waits for it."""

    def __init__(self, visitor: Visitor, service: Service) -> None:
        self._visitor, self._service = visitor, service
        self.read()
        with box("pw-devbox"):
            self._panel = Panel(lambda: device_box.draw(self._said()), self._said)

    def read(self) -> None:
        """Ask again; touches no element, so that a thread may do it."""
        self._device: Device | None = None
        with suppress(ServiceError):
            self._device = self._service.device(self._visitor.caller)

    def refresh(self) -> None:
        """Show what was read last."""
        self._panel.refresh()

    def _said(self) -> device_box.Words | None:
        return device_box.in_words(self._device) if self._device is not None else None
