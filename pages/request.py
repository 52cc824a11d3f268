"""What the button of a dialog does: it sends its request once, and tells what was refused."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from app.caller import Caller
from pages.acting import Acting
from pages.ask import ask, place_refusal

Fields = Mapping[str, ValidationElement[Any]]


def request(
    acting: Acting,
    opened: ui.dialog,
    note: ui.element,
    call: Callable[[Caller], Any],
    fields: Fields | None = None,
) -> Callable[[], Awaitable[None]]:
    """Send it once, however often the button is clicked; closed when it is accepted."""
    sent = False

    async def send() -> None:
        nonlocal sent
        if sent:
            return
        sent = True
        refused = await ask(acting.visitor, call)
        if refused is not None:
            sent = False
            place_refusal(refused, fields or {}, note)
            return
        opened.close()
        await acting.done()

    return send
