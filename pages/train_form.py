"""The fields of a training without a loop: base, LoRA settings, evaluation, and what is sent."""

from collections.abc import Callable
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from pages.parts import box, named, text
from pages.rows_field import RowsField
from pages.run_dialogs import whole

NOTHING = ""
GUARD = {"guard": "General ability (guard)"}
LORA = {"lora.rank": ("Rank", 16), "lora.alpha": ("Alpha", None)}
TRAINING = {
    "training.epochs": ("Epochs", 1),
    "training.learning_rate": ("Learning rate", None),
    "training.batch_size": ("Batch size", None),
    "training.max_length": ("Longest row, tokens", None),
    "training.seed": ("Seed", None),
}


class TrainForm:
    """Draws the fields; `spec()` is what they say, `changed` is called when one says another."""

    def __init__(
        self, base_models: list[str], domains: dict[str, str], changed: Callable[[], None]
    ) -> None:
        self._changed = changed
        self.elements: dict[str, ValidationElement[Any]] = {}
        with box("pw-two-fields"):
            first = base_models[0] if base_models else None
            self._add("base_model", "Base model", ui.select(base_models, value=first))
            self._add("name", "Name", ui.input(placeholder="Optional").props("maxlength=64"))
        self.data = RowsField(changed)
        self._numbers("LoRA", "What stays empty is the trainer's own.", LORA)
        self._numbers("Training", "", TRAINING)
        self._section("Evaluate", "Base and checkpoint on the same fresh tasks, afterwards.")
        with box("pw-two-fields"):
            suites = {NOTHING: "Nothing", **domains, **GUARD}
            self._add("evaluate.suite", "Suite", ui.select(suites, value=NOTHING))
            self._add("evaluate.n", "Tasks", ui.number(value=100, min=1, max=2000, step=1))

    def spec(self) -> dict[str, Any]:
        """The spec of the job as the service takes it; without what was left empty."""
        spec: dict[str, Any] = {"data": {"rows": self.data.rows}}
        for name, element in self.elements.items():
            value = whole(element.value)
            if value is None:
                continue
            group, _, field = name.rpartition(".")
            (spec.setdefault(group, {}) if group else spec)[field] = value
        if not self.elements["evaluate.suite"].value:
            spec.pop("evaluate", None)
        return spec

    def _numbers(self, title: str, about: str, fields: dict[str, tuple[str, int | None]]) -> None:
        self._section(title, about)
        with box("pw-two-fields"):
            for name, (label, value) in fields.items():
                self._add(name, label, ui.number(value=value, min=0))

    def _section(self, title: str, about: str) -> None:
        with box("pw-row pw-section"):
            text(title, "pw-h3", "h3")
            text(about, "pw-2 pw-small")

    def _add(self, name: str, label: str, element: ValidationElement[Any]) -> None:
        """Take a field in: labelled and followed."""
        with box() as both:
            text(label, "pw-label", "div")
            element.move(both)
        element.props("outlined dense").classes("pw-wide").mark(f"field-{name}")
        if isinstance(element, ui.select):
            named(element, label)
        else:
            element.props["aria-label"] = label
        element.on_value_change(lambda: self._told(name))
        self.elements[name] = element

    def _told(self, name: str) -> None:
        self.elements[name].error = None
        self._changed()
