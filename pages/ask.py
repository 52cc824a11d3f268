"""How a page asks the service for a change: the visitor checked again, in a thread, its refusal told."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from app.caller import Caller
from app.errors import ServiceError
from pages.frame import Visitor
from pages.settings_parts import refusal

SIGNED_OUT = "signed out"


async def ask(visitor: Visitor, call: Callable[[Caller], Any]) -> str | None:
    """Do `call` as the visitor of this moment; None when it is done, else the refusal's own text."""
    caller = visitor.still()
    if caller is None:
        return SIGNED_OUT
    try:
        await asyncio.to_thread(call, caller)
    except ServiceError as error:
        return str(error)
    return None


def place_refusal(
    message: str | None, fields: Mapping[str, ValidationElement[Any]], note: ui.element
) -> None:
    """Put a refusal beside the field that it names, else into `note`; None takes the last one away."""
    note.clear()
    named = field_of(message, fields) if message else None
    for name, field in fields.items():
        field.error = message if name == named else None
    if message and named is None:
        refusal(note, message)
    elif named is not None:
        fields[named].run_method("focus")


def field_of(message: str, names: Iterable[str]) -> str | None:
    """The field that a refusal names: "rounds: give 1 to 1000", "... limits.max_cost_usd: ..."."""
    known = set(names)
    for part in message.split(":")[:-1]:
        word = part.strip().removeprefix("limits.")
        if word in known:
            return word
    return "run" if "run" in known and re.match(r"run \S+ exists", message) else None
