"""The header of a run: title, state with its reason, and the facts that are asked for first."""

from nicegui import ui

from app.shapes import RunDetail
from pages import states, words
from pages.browser import When
from pages.parts import box, change, fact, pill, pips, share_bar, simulated_chip, spend_share, text
from pages.run_view import RunView


def title(view: RunView) -> None:
    """Where this is, the run's name, its state and the reason of it."""
    run = view.detail
    with box("pw-crumb"):
        ui.link("Model loops", "/")
        text(" /")
    with box("pw-row pw-wrap").style("gap: 4px 12px"):
        text(run.run, "pw-h1", "h1")
        pill(states.of_run(run))
        if run.simulated:
            simulated_chip()
        elif run.mode == "dry":
            text("Dry run", "pw-chip")
        if run.replay:
            text("Replay", "pw-chip")
    reason = run.reason or run.activity
    if reason:
        text(reason, "pw-reason", "div")


def facts(view: RunView) -> None:
    """What is asked for first: round, best version, device, spend."""
    run = view.detail
    with box("pw-facts", "dl"):
        _round(run)
        _best(run)
        fact("Device", run.machine or words.DASH)
        _spend(run)
        with box("pw-fact pw-desk"):
            text("Updated", tag="dt")
            with box(tag="dd"):
                When(run.updated_at, "full" if view.ended else "ago").classes("pw-2")


def _round(run: RunDetail) -> None:
    with box("pw-fact"):
        text("Round", tag="dt")
        with box(tag="dd"):
            text(f"{run.round} of {run.rounds_target}")
            pips(run.round, run.rounds_target, run.state == "running")


def _best(run: RunDetail) -> None:
    with box("pw-fact"):
        text("Best version", tag="dt")
        with box(tag="dd"):
            text(run.best_version or words.DASH)
            if run.best_score is not None:
                text(f"{words.score(run.best_score)} dev", "pw-2")
            if run.change is not None:
                change(run.change.mean, run.change)


def _spend(run: RunDetail) -> None:
    spend = run.spend
    with box("pw-fact"):
        text("Model spend", tag="dt")
        with box(tag="dd"):
            text(words.usd(spend.model_usd))
            text(f"of {words.usd(spend.max_model_cost_usd)}", "pw-2")
            share = spend_share(spend)
            share_bar(share, "pw-desk", full=share >= 0.99)
