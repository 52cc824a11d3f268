"""The dialog Deploy: what will happen, whether the base goes with it, and the refusal if there is one."""

import asyncio
import secrets
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from app.caller import Caller
from app.errors import Conflict, InUse
from app.job_shapes import CheckpointItem, JobItem
from app.service import Service
from app.shapes import RunDetail
from pages.acting import Acting
from pages.ask import ask, place_refusal
from pages.checkpoints_table import name_of, run_of
from pages.parts import box, text
from pages.settings_parts import buttons, dialog

BASE = "base"  # the name of a run's untouched model


@dataclass(kw_only=True, slots=True, frozen=True)
class Deployable:
    """A version that can be deployed, and the base model it came from, as the service takes both."""

    name: str
    base_name: str
    spec: dict[str, Any]
    base_spec: dict[str, Any]


def of_run(run: RunDetail) -> Deployable:
    """The best version of a run, beside the run's base with the same harness."""
    base = f"{run.run}/{BASE}"
    name = f"{run.run}/{run.best_version or BASE}"
    return Deployable(
        name=name, base_name=base, spec={"version": name}, base_spec={"version": base}
    )


def of_checkpoint(item: CheckpointItem, called: str | None = None) -> Deployable:
    """What was trained, beside the base that it was trained on; `called` is a person's name for it."""
    run = run_of(item)
    base = f"{run}/{BASE}" if run else item.base_model
    return Deployable(
        name=name_of(item),
        base_name=base,
        spec={"inputs": {"checkpoint": item.tinker_path}} | ({"name": called} if called else {}),
        base_spec={"version": base} if run else {"model": base},
    )


def of_base(name: str) -> Deployable:
    """A base model by itself, as it was added."""
    spec = {"model": name}
    return Deployable(name=name, base_name=name, spec=spec, base_spec=spec)


async def deploy(acting: Acting, what: Deployable) -> None:
    """Ask whether to deploy it; afterwards the chat with it is open."""
    caller = acting.visitor.still()
    if caller is None:
        return
    deployed = await asyncio.to_thread(_deployed, acting, caller)
    if what.name in deployed:
        ui.navigate.to(f"/inference/{deployed[what.name]}")
        return
    with acting.place, dialog(f"Deploy {what.name}?") as (opened, note):
        with box("pw-points", "ul"):
            for line in deploy_lines(what):
                text(line, tag="li")
        beside = ui.checkbox(f"Deploy {what.base_name} too, to compare in the chat", value=True)
        beside.props("dense").classes("pw-gap").mark("with-base")
        beside.set_visibility(what.name != what.base_name and what.base_name not in deployed)
        _Deployment(acting, what, opened, note, beside)


def deploy_lines(what: Deployable) -> list[str]:
    """What a deployment does."""
    return [
        f"Any OpenAI client can then call {what.name} here, with a key of this project.",
        "It is woken once, to show that it works. Without calls it falls asleep; the next wakes it.",
        "It shares the device with the runs: while one of them needs it, a call may have to wait.",
        "It stays until a person deletes it, and what it is made of cannot be deleted meanwhile.",
    ]


class _Deployment:
    """The dialog's button: deploys once, and the base beside it where that was asked for."""

    def __init__(
        self,
        acting: Acting,
        what: Deployable,
        opened: ui.dialog,
        note: ui.element,
        beside: ui.checkbox,
    ) -> None:
        self._acting, self._what, self._opened = acting, what, opened
        self._note, self._beside = note, beside
        self._sent = False
        self._request, self._base_request = (f"console-{secrets.token_hex(8)}" for _ in range(2))
        self._job = ""
        buttons(opened, "Deploy", self._send)

    async def _send(self) -> None:
        if self._sent:
            return
        self._sent = True
        refused = await ask(self._acting.visitor, self._call)
        if refused is not None:
            self._sent = False
            place_refusal(refused, {}, self._note)
            return
        self._opened.close()
        ui.navigate.to(f"/inference/{self._job}")

    def _call(self, caller: Caller) -> None:
        service, what = self._acting.service, self._what
        body = {"type": "inference", "request_id": self._request, "spec": what.spec}
        self._job = submit(service, caller, body)
        if self._beside.value and self._beside.visible:
            body = {"type": "inference", "request_id": self._base_request, "spec": what.base_spec}
            try:
                service.submit_job(caller, body)
            except InUse:
                pass  # somebody else was quicker: it is there


def submit(service: Service, caller: Caller, body: dict[str, Any]) -> str:
    """Deploy a version under a person's name for it, or its own where that one is taken; the job."""
    spec = body["spec"]
    try:
        return service.submit_job(caller, body).job_id
    except Conflict as refusal:
        if isinstance(refusal, InUse) or "name" not in spec:
            raise
    own = {field: value for field, value in spec.items() if field != "name"}
    return service.submit_job(caller, body | {"spec": own}).job_id


def _deployed(acting: Acting, caller: Caller) -> dict[str, str]:
    """The jobs of what is deployed, by public name."""
    found = acting.service.endpoints(caller)
    return {job.inference.model: job.job_id for job in found if job.inference is not None}


def base_of(item: JobItem, others: list[JobItem]) -> JobItem | None:
    """The deployed base that a version is best compared with: its own run's first, else any."""
    found = item.inference
    if found is None or found.checkpoint is None:
        return None
    plain = [
        one
        for one in others
        if one.inference is not None
        and one.inference.checkpoint is None
        and one.inference.base_model == found.base_model
    ]
    own = f"{found.model.rpartition('/')[0]}/{BASE}"
    return next((one for one in plain if one.inference and one.inference.model == own), None) or (
        plain[0] if plain else None
    )


async def deploy_base(acting: Acting, item: JobItem) -> None:
    """Deploy the base that a version came from, as its run asked it where it is of a run."""
    found = item.inference
    if found is None:
        return
    run = found.model.rpartition("/")[0]
    spec = {"version": f"{run}/{BASE}"} if run else {"model": found.base_model}
    body = {"type": "inference", "request_id": f"console-{secrets.token_hex(8)}", "spec": spec}
    refused = await ask(acting.visitor, lambda caller: acting.service.submit_job(caller, body))
    if refused is not None:
        ui.notify(refused, type="negative")
    await acting.done()
