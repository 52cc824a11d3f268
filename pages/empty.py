"""What a list shows instead of rows: how to start, or that a filter matches nothing."""

from collections.abc import Callable

from nicegui import ui

from app.service import Service
from pages import look
from pages.ask import ask
from pages.frame import Visitor
from pages.parts import box, icon, text


def no_runs(hint: str | None, visitor: Visitor, service: Service) -> None:
    """A project without runs: one sentence, one button, the command that does the same."""
    with box("pw-empty"):
        look.mark("pw-mark")
        text("No runs in this project yet", "pw-h1", "h2").style("margin-top: 16px")
        text(
            "A run trains a candidate from the failures of the last version, measures it on fresh "
            "tasks, and keeps it only if it is proven better.",
            tag="p",
        )
        with box("pw-two-up"):
            with box("pw-card"):
                text("Try it on this machine", "pw-h2", "h3")
                text(
                    "A real loop on the embedded 135M student: two rounds of arithmetic. "
                    "No key, no network, no spend.",
                    "pw-2",
                    "div",
                )
                _demo_button(visitor, service)
            with box("pw-card"):
                text("Start your own", "pw-h2", "h3")
                text("With your own brief, preset and caps.", "pw-2", "div")
                if hint:
                    text(hint, "pw-2 pw-small", "div")
                if "training.run" in visitor.caller.capabilities:
                    own = ui.button("Start a run", icon="sym_o_add", color=None)
                    own.props("no-caps outline").classes("pw-gap")
                    own.on_click(lambda: ui.navigate.to("/start"))


def nothing_listed(title: str, about: str, clear: Callable[[], None] | None = None) -> None:
    """What stands for no rows; `clear` takes the filter away that leaves none of them."""
    with box("pw-card pw-nothing", "section"):
        text(title, "pw-strong pw-ink pw-break", "div")
        text(about, tag="div")
        if clear is not None:
            button = ui.button("Clear the filter", icon="sym_o_filter_list_off", color=None)
            button.props("no-caps outline").style("margin-top: 12px").on_click(clear)


def _demo_button(visitor: Visitor, service: Service) -> None:
    with box("pw-row").style("margin-top: 12px"):
        button = ui.button("Run the demo", icon="sym_o_play_circle")
        button.props("no-caps unelevated").on_click(lambda: _start_demo(visitor, service))
        if "training.run" not in visitor.caller.capabilities:
            button.disable()
            with text("needs the right to train", "pw-2 pw-small"):
                icon("sym_o_lock")


async def _start_demo(visitor: Visitor, service: Service) -> None:
    from app.demo import demo_fields

    fields = demo_fields(None, None, None, None)
    refused = await ask(visitor, lambda caller: service.start_run(caller, **fields))
    if refused is None:
        ui.navigate.to(f"/runs/{fields['run']}")
    else:
        ui.notify(refused, type="negative")
