"""The tab Loop progress of a loop's job: where its run stands, and the way to it."""

from nicegui import ui

from pages import states, words
from pages.browser import When
from pages.job_view import JobView
from pages.parts import box, card, icon, pill, pips, simulated_chip, text


def progress_card(view: JobView) -> None:
    """The run in a few lines; its own page has the rest."""
    run = view.loop
    with card("Loop progress"), box("pw-cb"):
        if run is None:
            text("The run of this job cannot be seen.", "pw-2", "div")
            return
        with box("pw-row pw-wrap"):
            ui.link(run.run, f"/runs/{run.run}").classes("pw-strong")
            pill(states.of_run(run))
            if run.simulated:
                simulated_chip()
        text(run.summary, "pw-reason", "div")
        with box("pw-kv pw-left pw-gap", "dl"):
            text("Round", tag="dt")
            with box("pw-row", "dd"):
                text(f"{run.round} of {run.rounds_target}")
                pips(run.round, run.rounds_target, run.state == "running")
            text("Best version", tag="dt")
            text(f"{run.best_version or words.DASH}, {words.score(run.best_score)} dev", tag="dd")
            text("Last update", tag="dt")
            with box(tag="dd"):
                When(run.updated_at)
        with ui.link(target=f"/runs/{run.run}").classes("pw-back"):
            text("Open the run")
            icon("sym_o_arrow_forward")
