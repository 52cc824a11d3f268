"""The frame around every page: drawer, header bar on a phone, theme, who is signed in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nicegui import ui
from starlette.requests import Request

from app.caller import Caller
from app.errors import ServiceError
from app.service import Service
from app.shapes import Device
from pages import look
from pages.browser import Theme
from pages.parts import box, icon, text


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
def frame(visitor: Visitor, service: Service, project: str) -> Iterator[None]:
    """Everything around a page's own content."""
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
        with ui.link(target="/").classes("pw-nav pw-on").props("aria-current=page"):
            icon("sym_o_model_training")
            text("Model")
            text(_run_count(visitor.caller, service), "n")
        _device(_device_of(visitor.caller, service))
        _person(visitor.caller)
    yield


def _brand() -> None:
    with ui.link(target="/").classes("pw-brand").props('aria-label="Pawl, model loops"'):
        look.mark()
        text("pawl", "pw-word")


def _run_count(caller: Caller, service: Service) -> str:
    try:
        return str(service.list_runs(caller, limit=1).counts["all"] or "")
    except ServiceError:
        return ""


def _device_of(caller: Caller, service: Service) -> Device | None:
    try:
        return service.device(caller)
    except ServiceError:
        return None


def _device(device: Device | None) -> None:
    """Who holds the device and who waits for it."""
    with box("pw-devbox"):
        if device is None:
            text("Device not known", "pw-small pw-2 pw-ell", "div")
            return
        text(device.name, "pw-small pw-strong pw-ell", "div")
        held = ", ".join(part for part in (device.purpose, device.run) if part)
        text(held[:1].upper() + held[1:] if held else "Idle", "pw-small pw-2 pw-ell", "div")
        waiting = f"Next: {', '.join(device.waiting)}" if device.waiting else "Nothing waits"
        text(waiting, "pw-small pw-3 pw-ell", "div")


def _person(caller: Caller) -> None:
    with box("pw-whoami"):
        with box("pw-grow"):
            text(caller.actor, "pw-strong pw-ell", "div").style("line-height: 16px")
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
