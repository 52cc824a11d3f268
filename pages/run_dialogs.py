"""The dialogs of a run's actions: what will happen, what is lost, and the refusal if there is one."""

from typing import Any

from nicegui import ui

from app.caller import Caller
from app.shapes import Live, RunDetail, RunSummary
from app.steering import LONGEST
from pages import words
from pages.acting import Acting
from pages.offers import when_stopped
from pages.parts import box, hint, text
from pages.request import request
from pages.settings_parts import buttons, dialog

PLANNED_BEFORE = frozenset({"prepare", "diagnose", "plan"})
CAPS = {
    "max_model_cost_usd": "Model spend cap, USD",
    "max_cost_usd": "Total spend cap, USD",
    "max_model_requests": "Model request cap",
}


def steer(acting: Acting, run: RunDetail, live: Live) -> None:
    """Say something to the loop, for the moment."""
    with dialog(f"Steer {run.run}") as (opened, note):
        text(delivery(run, live.phase), "pw-2", "p")
        if not run.config.get("operator_model"):
            hint("The built-in planner of this run reads no text: it drops a steer, and says so.")
        said = ui.textarea().props(
            f'outlined autogrow counter autofocus maxlength={LONGEST} aria-label="Steer"'
        )
        said.classes("pw-wide pw-gap").mark("steer-text")

        def call(caller: Caller) -> None:
            acting.service.steer(caller, run.run, str(said.value or ""))

        buttons(opened, "Send", request(acting, opened, note, call, {"text": said}))


def delivery(run: RunDetail, phase: str | None) -> str:
    """When a steer that is given now reaches the loop."""
    between = phase is None or phase in PLANNED_BEFORE
    number = max(1, run.round if between and run.round else run.round + 1)
    resting = " after it is resumed" if run.state == "paused" else ""
    if number > run.rounds_target or run.stop_requested:
        return "No further round is to be planned, so it would be dropped. Extend the run first."
    return (
        f"It is queued at once and delivered when round {number} is planned{resting}. If the run "
        "ends before that, it is dropped with that reason."
    )


def stop(acting: Acting, run: RunDetail, _live: Live) -> None:
    """End the run; says when, what stays and what does not."""
    with dialog(f"Stop {run.run}?") as (opened, note):
        with box("pw-points", "ul"):
            for line in stop_lines(run):
                text(line, tag="li")

        def call(caller: Caller) -> None:
            acting.service.control(caller, run.run, "stop")

        buttons(opened, "Stop", request(acting, opened, note, call), negative=True)


def stop_lines(run: RunSummary) -> list[str]:
    """What a stop does, in the state that the run is in."""
    when = when_stopped(run)
    if run.state == "running" and run.round:
        begun = f"The run ends {when}: the round goes on to its gate, its money and time too."
    else:
        begun = f"The run ends {when}."
    lost = (
        "Finished rounds, versions and evidence stay. Steers that wait are dropped."
        if run.state == "running"
        else "Finished rounds, versions and evidence stay. Steers that wait are dropped; a phase "
        "that was cut short is done again on resume."
    )
    reserved = run.spend.reserved_usd
    billed = f"What is in flight can still bill up to {words.usd(reserved)}." if reserved else None
    return [line for line in (begun, lost, billed, "It can be resumed or extended later.") if line]


def resume(acting: Acting, run: RunDetail, _live: Live) -> None:
    """Go on with a run that was halted; says from where, and that it costs."""
    with dialog(f"Resume {run.run}?") as (opened, note):
        with box("pw-points", "ul"):
            for line in resume_lines(run):
                text(line, tag="li")
        if by_cap(run):
            hint("A cap stopped it: raise that cap with Extend first, or it stops again.")

        def call(caller: Caller) -> None:
            acting.service.control(caller, run.run, "resume")

        buttons(opened, "Resume", request(acting, opened, note, call))


def resume_lines(run: RunSummary) -> list[str]:
    """Where the run goes on, from which version, and what it may still spend."""
    best = f", from {run.best_version}" if run.best_version else ""
    where = f"in round {run.round} of {run.rounds_target}{best}" if run.round else "preparing"
    spent = f"{words.usd(run.spend.model_usd)} of {words.usd(run.spend.max_model_cost_usd)}"
    return [
        f"It goes on {where}, after the last phase that was recorded.",
        f"Paid work starts again; {spent} of model money is spent, and the caps stay.",
    ]


def by_cap(run: RunSummary) -> bool:
    """Whether a cap ended the run."""
    return run.state == "stopped" and "cap" in (run.reason or "").split()


def extend(acting: Acting, run: RunDetail, _live: Live) -> None:
    """Set more rounds, and raise caps."""
    limits = run.limits
    with dialog(f"Extend {run.run}") as (opened, note):
        ended = "It goes on" if run.state in {"finished", "stopped", "failed"} else "It works"
        text(f"{ended} to the new number of rounds; paid work may start.", "pw-2", "p")
        target = max(run.rounds_target, run.round) + 1
        fields: dict[str, ui.number] = {"rounds": _number("rounds", "Rounds", target, least=1)}
        for name, label in CAPS.items():
            cap = limits.get(name)
            if cap is not None:
                fields[name] = _number(name, label, cap, least=cap)
        missing = [label for name, label in CAPS.items() if limits.get(name) is None]
        text("Caps can be raised, never lowered.", "pw-2 pw-small pw-gap", "div")
        if missing:
            text(f"Not set: {', '.join(missing)}.", "pw-2 pw-small", "div")

        def call(caller: Caller) -> None:
            raised = {
                name: whole(fields[name].value)
                for name in fields
                if name != "rounds" and fields[name].value != limits[name]
            }
            rounds = whole(fields["rounds"].value)
            acting.service.control(caller, run.run, "extend", rounds=rounds, limits=raised or None)

        buttons(opened, "Extend", request(acting, opened, note, call, fields))


def _number(name: str, label: str, value: float, *, least: float) -> ui.number:
    text(label, "pw-label", "div")
    field = ui.number(value=value, min=least)
    field.props(f'outlined dense aria-label="{label}"').classes("pw-wide").mark(f"field-{name}")
    return field


def whole(value: Any) -> Any:
    """A number field's value: an int where nothing stands behind the point, None when it is empty."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if value in ("", None) else value
