"""The page Start a run: the form, and beside it the same from a terminal."""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from app.access import Access
from app.caller import Caller
from app.errors import ServiceError
from app.service import Service
from app.shapes import StartOptions
from pages.ask import ask, place_refusal
from pages.frame import Visitor, frame
from pages.memory_ahead import memory_line
from pages.parts import box, card, text, trouble
from pages.settings_parts import copyable
from pages.start_command import command, command_says_all, curl
from pages.start_form import StartForm

NUMBERED = re.compile(r"(.*?)-?(\d+)?")


async def start_page(
    visitor: Visitor, service: Service, access: Access, query: dict[str, str], url: str
) -> None:
    """Build the page; `from` in the query names a run that the form is filled from."""
    project = access.project_name(visitor.caller.project_id)
    caller, problem, choices = visitor.caller, "", None
    try:
        choices = await asyncio.to_thread(_choices, service, caller, query)
    except ServiceError as error:
        problem = str(error)
    with frame(visitor, service, project):
        with box("pw-head pw-head-plain", "header"):
            with box("pw-crumb"):
                ui.link("Model loops", "/")
                text(" /")
            text("Start a run", "pw-h1", "h1")
        with box("pw-page"):
            if choices is None:
                trouble(problem)
            else:
                StartPage(visitor, service, url).build(choices)


@dataclass(kw_only=True, slots=True, frozen=True)
class Choices:
    """What the form offers, and what it is filled with."""

    options: StartOptions
    base_models: list[str]
    given: dict[str, Any]


def _choices(service: Service, caller: Caller, query: dict[str, str]) -> Choices:
    return Choices(
        options=service.start_options(caller),
        base_models=[model.name for model in service.training_models(caller).items],
        given=_given(service, caller, query),
    )


def _given(service: Service, caller: Caller, query: dict[str, str]) -> dict[str, Any]:
    """What the form starts from: another run's fields, a preset, and an id that is free."""
    source = query.get("from")
    try:
        given = service.start_fields(caller, source) if source else {}
    except ServiceError:
        given = {}  # the form is as good without it
    if query.get("preset"):
        given["preset"] = query["preset"]
    return given | {"run": free_id(service, caller, source or given.get("domain") or "arith")}


def free_id(service: Service, caller: Caller, like: str) -> str:
    """The next free id of a family of ids: carry-1, carry-2, ..."""
    match = NUMBERED.fullmatch(like)
    stem = (match[1] if match else like)[:56] or "run"
    taken = service.list_runs(caller, q=f"{stem}-", limit=100).items
    numbers = [
        int(run.run.removeprefix(f"{stem}-"))
        for run in taken
        if re.fullmatch(re.escape(stem) + r"-\d{1,6}", run.run)
    ]
    return f"{stem}-{max(numbers, default=0) + 1}"


class StartPage:
    """One visitor's form; the same as a command is kept in step with it."""

    def __init__(self, visitor: Visitor, service: Service, url: str) -> None:
        self._visitor, self._service, self._url = visitor, service, url
        self._form: StartForm | None = None
        self._sent = False
        self._asked: tuple[Any, ...] = ()  # what the line about memory was asked of

    def build(self, choices: Choices) -> None:
        """Form on the left, terminal on the right."""
        with box("pw-cols2 pw-start"):
            with box("pw-card pw-form", "section").props('aria-label="Start a run"'):
                self._form = StartForm(
                    choices.options, choices.base_models, choices.given, self._tell
                )
                self._memory = text("", "pw-2 pw-small pw-gap", "div").mark("memory")
                self._note = box("pw-gap")
                with box("pw-row pw-foot"):
                    start = ui.button("Start", icon="sym_o_play_arrow", on_click=self._start)
                    start.props("no-caps unelevated").mark("start")
            with box("pw-stack"), card("The same from a terminal"), box("pw-cb"):
                self._same = ui.refreshable(self._draw_same)
                self._same()
        self._tell_memory()

    def _tell(self) -> None:
        if self._form is not None:
            self._same.refresh()
            self._tell_memory()

    def _tell_memory(self) -> None:
        assert self._form is not None
        fields = self._form.fields()
        names = ("preset", "domain", "base_model", "dry_run")
        asked = tuple(fields.get(name) or None for name in names)
        if asked != self._asked:
            self._asked = asked
            ui.timer(0, self._read_memory, once=True)

    async def _read_memory(self) -> None:
        """What is asked takes a look at the cards: beside the page, not before it."""
        asked = preset, domain, base, dry = self._asked
        found = None
        with suppress(ServiceError):
            if not dry:
                ahead, caller = self._service.memory_ahead, self._visitor.caller
                found = await asyncio.to_thread(ahead, caller, preset, domain, base)
        if asked == self._asked:
            self._memory.text = memory_line(found, bool(dry))

    def _draw_same(self) -> None:
        assert self._form is not None
        fields = self._form.fields()
        if command_says_all(fields):
            copyable(command(fields))
        copyable(curl(fields, self._url))

    async def _start(self) -> None:
        if self._form is None or self._sent:
            return
        self._sent = True
        fields = self._form.fields()
        refused = await ask(self._visitor, lambda caller: self._service.start_run(caller, **fields))
        place_refusal(refused, self._form.elements, self._note)
        if refused is None:
            ui.navigate.to(f"/runs/{fields['run']}")
        else:
            self._sent = False
