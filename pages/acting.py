"""Who acts, through what, and what happens on the page when a request was accepted."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nicegui import ui

from app.service import Service
from pages.frame import Visitor


@dataclass(kw_only=True, slots=True, frozen=True)
class Acting:
    """`place` holds the dialogs, outside of what the page draws anew; `done` ends an action."""

    visitor: Visitor
    service: Service
    place: ui.element
    done: Callable[[], Awaitable[None]]
