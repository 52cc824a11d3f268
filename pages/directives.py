"""The tab Owner directives: what stands for all later rounds, and a form to add to it."""

from nicegui import ui

from app.caller import Caller
from app.shapes import DirectiveShape
from app.steering import LONGEST
from pages.ask import ask, place_refusal
from pages.browser import When
from pages.live import Panel, Part
from pages.parts import box, card, hint, text
from pages.place import Place
from pages.run_view import RunView

MOST_ROUNDS = 6


def panels(view: RunView, _place: Place) -> list[Part]:
    """Draw the tab; the list, which the page refreshes."""
    with box("pw-cols2"):
        with box("pw-stack"):
            shown = Panel(lambda: _list(view.detail.directives), lambda: view.detail.directives)
        if "training.run" in view.visitor.caller.capabilities:
            _form(view)
    return [shown]


def _list(directives: list[DirectiveShape]) -> None:
    with card("Owner directives", "standing instructions, newest first"):
        if not directives:
            text("No directive was given.", "pw-quiet", "div")
        for one in reversed(directives):
            with box("pw-rec"):
                text(one.text, "pw-q pw-lines-kept", "div")
                with box("pw-trail"):
                    text(use_of(one), "pw-break")
                    with box(tag="span"):
                        text(f"{one.author},")
                        When(one.at)


def use_of(one: DirectiveShape) -> str:
    """Which plans followed a directive and how; without any, whether somebody has read it."""
    if one.used:
        last = one.used[-1]
        how = f": {last.how}" if last.how else ""
        return f"cited by plan, {_rounds([use.round for use in one.used])}{how}"
    if one.read:
        return f"read in {_rounds(one.read)}, not cited by a plan"
    return "no plan has read it yet"


def _rounds(numbers: list[int]) -> str:
    """Rounds in words: the last of many, all of a few."""
    if len(numbers) == 1:
        return f"round {numbers[0]}"
    if len(numbers) > MOST_ROUNDS:
        return f"{len(numbers)} rounds, last {numbers[-1]}"
    return f"rounds {', '.join(map(str, numbers))}"


def _form(view: RunView) -> None:
    with card("Add a directive"), box("pw-cb"):
        text(
            "It stands for every later round; steering is for the moment. Plans that follow it "
            "cite it.",
            "pw-2 pw-small",
            "div",
        )
        if not view.detail.config.get("operator_model"):
            hint("The built-in planner of this run reads no text, so it cannot follow a directive.")
        field = ui.textarea().props(
            f'outlined autogrow counter maxlength={LONGEST} aria-label="Directive"'
        )
        field.classes("pw-wide pw-gap").mark("directive")
        note = box()

        async def add() -> None:
            said = str(field.value or "")

            def call(caller: Caller) -> None:
                view.service.add_directive(caller, view.run, said)
                view.read_directives()

            button.disable()
            refused = await ask(view.visitor, call)
            button.enable()
            place_refusal(refused, {"text": field}, note)
            if refused is None:
                field.value = ""
                view.show()

        with box("pw-row pw-foot"):
            button = ui.button("Add", color=None, on_click=add).props("no-caps outline")
            button.mark("add-directive")
