"""The page Train by hand: rows in, a checkpoint and its scores out, without a loop."""

import asyncio
import json
import secrets
import shlex
from typing import Any

from nicegui import ui

from app.access import Access
from app.caller import Caller
from app.errors import ServiceError
from app.service import Service
from pages import words
from pages.ask import ask, place_refusal
from pages.frame import Visitor, frame
from pages.parts import box, card, text, trouble
from pages.settings_parts import copyable, refusal
from pages.train_form import TrainForm

AT = "/jobs"
SHOWN_ROWS = 1


async def train_page(visitor: Visitor, service: Service, access: Access, url: str) -> None:
    """Build the page; `url` is how the visitor reaches this server."""
    caller, problem, choices = visitor.caller, "", None
    try:
        choices = await asyncio.to_thread(_choices, service, caller)
    except ServiceError as error:
        problem = str(error)
    with frame(visitor, service, access.project_name(caller.project_id), AT):
        with box("pw-head pw-head-plain", "header"):
            with box("pw-crumb"):
                ui.link("Jobs", AT)
                text(" /")
            text("Train by hand", "pw-h1", "h1")
        with box("pw-page"):
            if choices is None:
                trouble(problem)
            else:
                TrainPage(visitor, service, url).build(*choices)


def _choices(service: Service, caller: Caller) -> tuple[list[str], dict[str, str]]:
    """Base models that can be trained, and the domains to evaluate on."""
    models = service.training_models(caller).items
    return [one.name for one in models if not one.simulated], service.start_options(caller).domains


class TrainPage:
    """One visitor's form; the same as a request is kept in step with it."""

    def __init__(self, visitor: Visitor, service: Service, url: str) -> None:
        self._visitor, self._service, self._url = visitor, service, url
        self._form: TrainForm | None = None
        self._sent = False
        self._request = f"console-{secrets.token_hex(8)}"
        self._job = ""

    def build(self, base_models: list[str], domains: dict[str, str]) -> None:
        """Form on the left, terminal on the right."""
        with box("pw-cols2 pw-start"):
            with box("pw-card pw-form", "section").props('aria-label="Train by hand"'):
                text(
                    "A LoRA adapter is trained on these rows alone: no rounds, no gate, no replay "
                    "rows, so look at its guard score before you use it.",
                    "pw-2",
                    "p",
                )
                self._form = TrainForm(base_models, domains, self._tell)
                self._note = box("pw-gap")
                with box("pw-row pw-foot"):
                    start = ui.button("Train", icon="sym_o_play_arrow", on_click=self._start)
                    start.props("no-caps unelevated").mark("train")
            with box("pw-stack"), card("The same from a terminal"), box("pw-cb"):
                self._same = ui.refreshable(self._draw_same)
                self._same()

    def _tell(self) -> None:
        if self._form is not None:
            self._request = f"console-{secrets.token_hex(8)}"  # another body is another request
            self._note.clear()  # what was refused was the earlier one
            self._same.refresh()

    def _draw_same(self) -> None:
        assert self._form is not None
        spec = self._form.spec()
        rows = spec["data"]["rows"] or []
        if len(rows) <= SHOWN_ROWS:
            text("Put the request into job.json:", "pw-2 pw-small", "div")
            copyable(job_file(spec))
        else:
            about = f"job.json, of whose {words.count(len(rows))} rows the first is shown:"
            text(about, "pw-2 pw-small", "div")
            text(job_file({**spec, "data": {"rows": rows[:SHOWN_ROWS]}}), "pw-code", "div")
            save = ui.button("Save job.json", icon="sym_o_download", color=None)
            save.props("no-caps outline").mark("save-request")
            save.on_click(lambda: ui.download.content(job_file(spec).encode(), "job.json"))
        copyable(curl(self._url))

    async def _start(self) -> None:
        if self._form is None or self._sent:
            return
        if not self._form.data.rows:
            refusal(self._note, "rows: give at least one row that can be read")
            return
        self._sent = True
        body = {"type": "train", "request_id": self._request, "spec": self._form.spec()}
        refused = await ask(self._visitor, lambda caller: self._submit(caller, body))
        place_refusal(refused, self._form.elements, self._note)
        if refused is None:
            ui.navigate.to(f"/jobs/{self._job}")
        else:
            self._sent = False

    def _submit(self, caller: Caller, body: dict[str, Any]) -> None:
        self._job = self._service.submit_job(caller, body).job_id


def job_file(spec: dict[str, Any]) -> str:
    """The request as a file, ready to be sent."""
    body = {"type": "train", "spec": {**spec, "data": {"rows": spec["data"]["rows"] or []}}}
    return json.dumps(body, indent=1, ensure_ascii=False)


def curl(url: str) -> str:
    """The request as curl sends it, with the key taken from the environment."""
    return (
        f"curl -X POST {shlex.quote(f'{url}/v1/job')} "
        '-H "Authorization: Bearer $ENVLOOP_API_KEY" -H "Content-Type: application/json" '
        "-d @job.json"
    )
