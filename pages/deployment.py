"""What an inference job deploys: state, engine, use, as its page shows it."""

from nicegui import ui

from app.job_shapes import JobItem
from pages import words
from pages.browser import When
from pages.endpoints_table import sign_of
from pages.parts import box, card, pill, term, text


def deployment_card(job: JobItem) -> None:
    """The deployed version in a few lines; Inference has what can be done with it."""
    found = job.inference
    assert found is not None
    with card("Deployed version") as head:
        with head:
            pill(sign_of(job))
        with box("pw-cb"), box("pw-kv pw-left", "dl"):
            term("Version", found.model)
            term("Name", found.name)
            term("Base model", found.base_model)
            term("Checkpoint", found.checkpoint or words.DASH, "pw-mono")
            term("Engine", found.engine or words.DASH)
            term("Calls", words.count(found.calls))
            term(
                "Tokens", f"{words.count(found.tokens_in)} in, {words.count(found.tokens_out)} out"
            )
            text("Last call", tag="dt")
            with box(tag="dd"):
                When(found.last_call_at)
            text("More", tag="dt")
            with box(tag="dd"):
                ui.link("All deployed versions", "/inference")
