"""The fields of a training without a loop: base, LoRA settings, evaluation, and what is sent."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from pages.form_fields import Fields, section
from pages.parts import box
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
        fields = Fields(changed)
        self.elements = fields.elements
        with box("pw-two-fields"):
            first = base_models[0] if base_models else None
            fields.add("base_model", "Base model", ui.select(base_models, value=first))
            fields.add("name", "Name", ui.input(placeholder="Optional").props("maxlength=64"))
        self.data = RowsField(changed)
        _numbers(fields, "LoRA", "What stays empty is the trainer's own.", LORA)
        _numbers(fields, "Training", "", TRAINING)
        section("Evaluate", "Base and checkpoint on the same fresh tasks, afterwards.")
        with box("pw-two-fields"):
            suites = {NOTHING: "Nothing", **domains, **GUARD}
            fields.add("evaluate.suite", "Suite", ui.select(suites, value=NOTHING))
            fields.add("evaluate.n", "Tasks", ui.number(value=100, min=1, max=2000, step=1))

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


def _numbers(
    fields: Fields, title: str, about: str, numbers: dict[str, tuple[str, int | None]]
) -> None:
    section(title, about)
    with box("pw-two-fields"):
        for name, (label, value) in numbers.items():
            fields.add(name, label, ui.number(value=value, min=0))
