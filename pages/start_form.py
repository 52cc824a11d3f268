"""The fields of a new run: what is asked, how it is prefilled, and what is sent to the service."""

from collections.abc import Callable, Container, Mapping
from typing import Any

from nicegui import ui

from app.shapes import StartOptions
from app.steering import LONGEST
from pages.form_fields import Fields, section
from pages.parts import box, text
from pages.run_dialogs import CAPS, whole

ANY = ""  # leave it to the preset or the server
MODEL_CAP_USD = 5.0  # proposed, to be confirmed by whoever starts


class StartForm:
    """Draws the fields; `fields()` is what they say, `changed` is called when one says another."""

    def __init__(
        self,
        options: StartOptions,
        base_models: list[str],
        given: Mapping[str, Any],
        changed: Callable[[], None],
    ) -> None:
        self._options, self._base_models, self._changed = options, base_models, changed
        self._given = {**given, **given.get("limits", {})}
        self._presets = {preset.name: preset for preset in options.presets}
        self._fields = Fields(changed)
        self.elements = self._fields.elements
        self._draw()
        self._tell_preset()

    def fields(self) -> dict[str, Any]:
        """The fields that say something, as the service takes them."""
        dry = bool(self._dry.value)
        said = {name: whole(element.value) for name, element in self.elements.items()}
        said |= {"run": str(said["run"] or "").strip(), "brief": str(said["brief"] or "")}
        said.pop("base_model" if dry else "student_model")
        limits = {name: said.pop(name) for name in CAPS} | self._counts()
        said |= {"dry_run": dry or None, "min_gain": self._given.get("min_gain")}
        kept = {name: value for name, value in said.items() if value is not None}
        return kept | {"limits": {name: v for name, v in limits.items() if v is not None}}

    def _counts(self) -> dict[str, Any]:
        """Limits of the run that this one is made from which have no field here."""
        limits = self._given.get("limits", {})
        return {name: value for name, value in limits.items() if name not in CAPS}

    def _draw(self) -> None:
        with box("pw-two-fields"):
            with box():
                self._fields.add("run", "Run id", ui.input(value=self._filled("run", "")))
                text("Lower-case letters, digits, dashes.", "pw-2 pw-small", "div")
            with box():
                names = list(self._presets)
                usual = "default" if "default" in names else names[0]
                preset = ui.select(names, value=self._filled("preset", usual, names))
                preset.on_value_change(self._tell_preset)
                self._fields.add("preset", "Preset", preset)
                self._words = text("", "pw-2 pw-small pw-break", "div")
        brief = ui.textarea(value=self._filled("brief", ""))
        self._fields.add("brief", "Brief", brief, f"autogrow counter maxlength={LONGEST}")
        text("What the loop should work towards; every round reads it.", "pw-2 pw-small", "div")
        with box("pw-two-fields"):
            domains = {ANY: "As the preset says", **self._options.domains}
            self._choose("domain", "Domain", domains)
            rounds = ui.number(min=1, max=1000, step=1, value=self._filled("rounds"))
            self._fields.add("rounds", "Rounds", rounds)
        section("Caps", "A hard stop each. Only the first is required.")
        with box("pw-two-fields"):
            for name, label in CAPS.items():
                proposed = MODEL_CAP_USD if name == "max_model_cost_usd" else None
                self._fields.add(name, label, ui.number(min=0, value=self._filled(name, proposed)))
        section("Models", "")
        self._draw_models()
        self._draw_also()
        self._switched()

    def _draw_models(self) -> None:
        self._dry = ui.switch("Dry run", value=bool(self._given.get("dry_run")))
        self._dry.on_value_change(self._switched)
        self._dry_words = text(
            "Nothing is trained: a gateway model answers in the student's place. It spends model "
            "budget and improves nothing.",
            "pw-2 pw-small",
            "div",
        )
        gateway = {name: name for name in self._options.gateway_models}
        bases = {ANY: "As the preset says", **{name: name for name in self._base_models}}
        with box("pw-two-fields"):
            self._base = self._choose("base_model", "Base model", bases)
            students = {ANY: "The server's own", **gateway}
            self._student = self._choose("student_model", "Student of the dry run", students)
            seed = ui.number(step=1, value=self._filled("seed"), placeholder="None: not repeatable")
            self._fields.add("seed", "Seed", seed)
            for name, label in (("operator_model", "Planner"), ("teacher_model", "Teacher")):
                self._choose(name, label, {ANY: "Built in", **gateway})

    def _choose(self, name: str, label: str, options: dict[str, str]) -> ui.element:
        """A field of which the first option is the usual one."""
        return self._fields.add(
            name, label, ui.select(options, value=self._filled(name, ANY, options))
        )

    def _filled(self, name: str, usual: Any = None, options: Container[Any] | None = None) -> Any:
        """What a field is made with: what was given where that can be chosen, else the usual.

        A text that is set later would be put in once the browser has connected, over what was typed
        until then.
        """
        given = self._given.get(name)
        can_be = given is not None and (options is None or given in options)
        return given if can_be else usual

    def _tell_preset(self) -> None:
        """The preset's own words, and what it sets where a field stays empty."""
        preset = self._presets[str(self.elements["preset"].value)]
        self._words.text = preset.words
        self.elements["rounds"].props["placeholder"] = str(preset.rounds or "")

    def _switched(self) -> None:
        dry = bool(self._dry.value)
        self._dry_words.set_visibility(dry)
        self._student.set_visibility(dry)
        self._base.set_visibility(not dry)
        self._changed()

    def _draw_also(self) -> None:
        """What is taken over from another run and has no field here."""
        over = self._counts()
        if self._given.get("min_gain") is not None:
            over["min_gain"] = self._given["min_gain"]
        if over:
            told = ", ".join(f"{name} {value}" for name, value in over.items())
            text(f"Also taken over: {told}", "pw-2 pw-small pw-gap", "div")
