"""What the pages below Settings share: their frame, tables, forms, code to copy."""

from collections.abc import Iterator
from contextlib import contextmanager

from nicegui import ui

from app.access import Access
from app.service import Service
from pages.browser import When
from pages.frame import Visitor, frame
from pages.parts import box, icon, text
from pages.words import DASH


@contextmanager
def settings_frame(
    visitor: Visitor, service: Service, access: Access, at: str, title: str
) -> Iterator[ui.element]:
    """A page with its title; the head comes back, so that a button can be put into it."""
    with frame(visitor, service, access.project_name(visitor.caller.project_id), at):
        with box("pw-head pw-head-plain", "header"), box("pw-row pw-between") as head:
            text(title, "pw-h1", "h1")
        with box("pw-page"):
            yield head


@contextmanager
def sheet(columns: list[str], label: str) -> Iterator[None]:
    """A plain table; put rows of cells into it."""
    with box("pw-scroll"), box("pw-sheet", "table").props(f'aria-label="{label}"'):
        with box(tag="thead"), box(tag="tr"):
            for column in columns:
                text(column, tag="th").props("scope=col")
        with box(tag="tbody"):
            yield


def cell(value: str | None, classes: str = "") -> None:
    """A cell with text; a dash for what is missing."""
    text(value or DASH, classes, "td")


def time_cell(at: str | None, otherwise: str = DASH) -> None:
    """A cell with a moment in the browser's zone."""
    with box(tag="td"):
        if at is None:
            text(otherwise, "pw-2")
        else:
            When(at)


def field(label: str, *, secret: bool = False) -> ui.input:
    """A labelled field of a form."""
    text(label, "pw-label", "div")
    made = ui.input(password=secret).props(f'outlined dense aria-label="{label}"')
    if secret:
        made.props("autocomplete=new-password")
    return made.classes("pw-wide")


@contextmanager
def dialog(title: str, classes: str = "") -> Iterator[tuple[ui.dialog, ui.element]]:
    """A dialog that is open at once and gone for good when closed; and a place for refusals."""
    page = ui.context.client.content  # one dialog may follow another, so none is inside another
    with page, ui.dialog(value=True) as opened, _panel(classes):
        opened.on("hide", opened.delete)
        text(title, "pw-h2", "h2")
        note = box()
        yield opened, note


def _panel(classes: str) -> ui.card:
    return ui.card().props("flat").classes(f"pw-dialog {classes}")


def refusal(note: ui.element, message: str) -> None:
    """Say in a dialog what was refused."""
    note.clear()
    with note, box("pw-note pw-bad-note").props("role=alert"):
        icon("sym_o_error", "pw-bad")
        text(message, "pw-break")


def buttons(opened: ui.dialog, word: str, on_click: object, *, negative: bool = False) -> None:
    """The foot of a dialog: cancel, and the one thing that it is for."""
    with box("pw-row pw-foot"):
        cancel = ui.button("Cancel", color=None, on_click=opened.close)
        cancel.props("no-caps flat").classes("pw-flat")
        color = "negative" if negative else "primary"
        confirm = ui.button(word, color=color, on_click=on_click)  # type: ignore[arg-type]
        confirm.props("no-caps unelevated").mark("confirm")


def copyable(code: str) -> None:
    """Text to copy, with the button that does it."""
    with box("pw-copy"):
        text(code, "pw-code pw-grow", "div")
        button = ui.button(icon="sym_o_content_copy", color=None)
        button.props('flat no-caps aria-label="Copy" title="Copy"').classes("pw-flat pw-sm")
        button.on("click", js_handler="(event) => pawl.copy(event)")
        text("Copied", "pw-copied pw-small pw-2").props("hidden role=status")
