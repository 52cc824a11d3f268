"""The labelled fields of a form, by the names under which the service knows them."""

from collections.abc import Callable
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from pages.parts import box, named, text


class Fields:
    """Calls `changed` when a field says something else; a refusal beside it is gone then."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.elements: dict[str, ValidationElement[Any]] = {}

    def add(
        self, name: str, label: str, element: ValidationElement[Any], props: str = ""
    ) -> ui.element:
        """Take a field in: labelled and followed; the label and the field come back."""
        with box() as both:
            text(label, "pw-label", "div")
            element.move(both)
        element.props(f"outlined dense {props}").classes("pw-wide").mark(f"field-{name}")
        if isinstance(element, ui.select):
            named(element, label)
        else:
            element.props["aria-label"] = label
        element.on_value_change(lambda: self._told(name))
        self.elements[name] = element
        return both

    def _told(self, name: str) -> None:
        self.elements[name].error = None
        self._changed()


def section(title: str, about: str) -> None:
    """The head of a group of fields."""
    with box("pw-row pw-section"):
        text(title, "pw-h3", "h3")
        text(about, "pw-2 pw-small")
