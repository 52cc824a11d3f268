"""What people do with a deployed version: talk to it, pause, resume, wake or delete it, call it."""

from nicegui import ui

from app.caller import Caller
from app.job_shapes import JobItem
from pages.acting import Acting
from pages.ask import ask
from pages.calling import snippets
from pages.job_actions import stop_lines
from pages.parts import box, text
from pages.request import request
from pages.settings_parts import buttons, copyable, dialog

AT_ONCE = frozenset({"resume", "wake"})


async def act(acting: Acting, action: str, job: JobItem, url: str) -> None:
    """Do what was chosen, or open the dialog that asks first."""
    if action == "chat":
        ui.navigate.to(f"/inference/{job.job_id}")
    elif action == "call":
        with acting.place:
            _how_to_call(job, url)
    elif action in AT_ONCE:
        await _change(acting, job, action)
    elif action == "pause":
        with acting.place:
            _pause(acting, job)
    elif action == "delete":
        with acting.place:
            _delete(acting, job)


async def _change(acting: Acting, job: JobItem, action: str) -> None:
    refused = await ask(
        acting.visitor, lambda caller: acting.service.change_endpoint(caller, job.job_id, action)
    )
    if refused is not None:
        ui.notify(refused, type="negative")
    await acting.done()


def _pause(acting: Acting, job: JobItem) -> None:
    with dialog(f"Pause {name(job)}?") as (opened, note):
        with box("pw-points", "ul"):
            text(
                "Calls are refused until somebody resumes it, and its memory is given back.",
                tag="li",
            )

        def call(caller: Caller) -> None:
            acting.service.change_endpoint(caller, job.job_id, "pause")

        buttons(opened, "Pause", request(acting, opened, note, call))


def _delete(acting: Acting, job: JobItem) -> None:
    with dialog(f"Delete {name(job)}?") as (opened, note):
        with box("pw-points", "ul"):
            for line in stop_lines(job):
                text(line, tag="li")

        def call(caller: Caller) -> None:
            acting.service.stop_job(caller, job.job_id)

        buttons(opened, "Delete", request(acting, opened, note, call), negative=True)


def _how_to_call(job: JobItem, url: str) -> None:
    assert job.inference is not None
    with dialog(f"Call {name(job)}", "pw-dialog-wide") as (opened, _):
        snippets(url, job.inference.model)
        text("Its own address, under which it alone answers", "pw-label", "div")
        copyable(f"{url}{job.inference.base_url}")
        with box("pw-row pw-foot"):
            ui.button("Close", color=None, on_click=opened.close).props("no-caps outline")


def name(job: JobItem) -> str:
    """The public name of the version that a job deploys."""
    return job.inference.model if job.inference else job.job_id
