"""The page of one deployed version: a chat with it, beside the base model or another version."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from nicegui import ui

from app.access import Access
from app.caller import Caller
from app.errors import ServiceError
from app.job_shapes import JobItem
from app.job_status import ACTIVE
from app.service import Service
from pages import endpoint_actions
from pages.acting import Acting
from pages.answering import Answering
from pages.chat_settings import ChatSettings
from pages.chat_turn import Messages, Turn
from pages.deploy import deploy_base
from pages.endpoints_table import menu, sign_of
from pages.frame import DeviceBox, Visitor, frame
from pages.live import Panel, Part, Poll
from pages.nothing import nothing
from pages.parts import box, pill, text, trouble

AT = "/inference"
LOOK_SECONDS = 0.15  # at what comes in
NO_SHIFT = "(e) => { if (!e.shiftKey && !e.isComposing) { e.preventDefault(); emit(); } }"


async def chat_page(visitor: Visitor, service: Service, access: Access, job: str, url: str) -> None:
    """Build the page; a job that is no deployed version gets the same words as a missing one."""
    refusal, found = "", None
    try:
        found = await asyncio.to_thread(_read, service, visitor.caller, job)
    except ServiceError as error:
        refusal = str(error)
    with frame(visitor, service, access.project_name(visitor.caller.project_id), AT) as device:
        if found is None:
            ui.status_code(404)
            why = "Its id may be mistyped, or it deploys nothing, or it is of another project."
            nothing(refusal, why, back=(AT, "All deployed versions"))
        else:
            ChatPage(visitor, service, found, url, device).build()


def _read(service: Service, caller: Caller, job: str) -> tuple[JobItem, list[JobItem]]:
    """A deployed version, and the others that it can be compared with."""
    item = service.job(caller, job)
    if item.inference is None:
        raise _NotDeployed(f"job {job} deploys no version")
    others = [one for one in service.endpoints(caller) if one.job_id != job]
    return item, others


class _NotDeployed(ServiceError):
    """A job that is none of a deployed version."""


class ChatPage:
    """One visitor's conversation; it lives as long as the page is open and is kept nowhere."""

    def __init__(
        self,
        visitor: Visitor,
        service: Service,
        found: tuple[JobItem, list[JobItem]],
        url: str,
        device: DeviceBox,
    ) -> None:
        self._visitor, self._service, self._url, self._device = visitor, service, url, device
        self._item, self._others = found
        self._turns: list[Turn] = []

    def build(self) -> None:
        """Head, settings, what was said, the field to ask in."""
        self._acting = Acting(
            visitor=self._visitor, service=self._service, place=box(), done=self._acted
        )
        with box("pw-head pw-head-plain", "header"), box("pw-row pw-between pw-headrow"):
            with box("pw-grow"):
                head = Panel(self._draw_title, lambda: self._item)
            actions = Panel(self._draw_actions, lambda: menu(self._item, self._visitor.caller))
        self._parts: list[Part] = [head, actions]
        with box("pw-page"):
            if "inference.use" not in self._visitor.caller.capabilities:
                trouble(f"{self._visitor.caller.actor} lacks the capability inference.use.")
            else:
                self._settings = ChatSettings(self._item, self._others, self._offer_base)
                self._parts.append(self._settings)
                self._parts.append(Panel(self._draw_ended, lambda: self._ended))
                self._said = box("pw-said-list").props('role=log aria-label="Conversation"')
                self._composer()
        self._timer = ui.timer(LOOK_SECONDS, self._show_answers, active=False)
        ui.context.client.on_delete(self._cancel)
        Poll(self._look)

    @property
    def _ended(self) -> bool:
        return self._item.status not in ACTIVE

    def _draw_ended(self) -> None:
        if self._ended:
            trouble("It is no longer deployed, so nobody answers here: deploy the version again.")

    def _draw_title(self) -> None:
        found = self._item.inference
        assert found is not None
        with box("pw-crumb"):
            ui.link("Inference", AT)
            text(" /")
        with box("pw-row pw-wrap").style("gap: 4px 12px"):
            text(found.model, "pw-h1", "h1")
            pill(sign_of(self._item))
        told = [found.base_model, found.engine or "", self._item.reason or ""]
        text(" · ".join(part for part in told if part), "pw-reason", "div")

    def _draw_actions(self) -> None:
        with box("pw-actions"):
            for one in menu(self._item, self._visitor.caller):
                if one["action"] == "chat":
                    continue
                color = "negative" if one["action"] == "delete" else None
                button = ui.button(one["word"], icon=one["icon"], color=color)
                button.props("no-caps outline").mark(f"endpoint-{one['action']}")
                if one["action"] in ("call", "delete"):
                    button.classes("pw-desk")
                button.on_click(partial(self._act, one["action"]))

    def _composer(self) -> None:
        with box("pw-composer pw-card"):
            field = ui.textarea(placeholder="17 + 25 = ?")
            field.props('outlined dense autogrow autofocus rows=1 aria-label="Question"')
            field.classes("pw-grow").mark("question")
            field.on("keydown.enter", self._send, js_handler=NO_SHIFT)
            self._field = field
            self._send_button = ui.button("Send", icon="sym_o_send", on_click=self._send)
            self._send_button.props("no-caps unelevated").mark("send")
            self._cancel_button = ui.button("Cancel", icon="sym_o_stop_circle", color=None)
            self._cancel_button.props("no-caps outline").mark("cancel")
            self._cancel_button.on_click(self._cancel).set_visibility(False)

    async def _send(self) -> None:
        """Put the question to every version that is compared."""
        question = (self._field.value or "").strip()
        caller = self._visitor.still()
        if not question or caller is None or self._answering or self._ended:
            return
        jobs = [self._item, *self._settings.compared]
        turn = Turn(question=question, names={one.job_id: _name(one) for one in jobs})
        for one in jobs:
            body = self._settings.body(_name(one), self._messages(one.job_id, question))
            turn.answers[one.job_id] = Answering(self._stream(caller, one.job_id, body))
        self._turns.append(turn)
        with self._said:
            turn.draw()
        self._field.value = ""
        self._switch(answering=True)
        ui.run_javascript("window.scrollTo({top: document.body.scrollHeight})")

    def _messages(self, job: str, question: str) -> Messages:
        told: Messages = []
        if self._settings.system:
            told.append({"role": "system", "content": self._settings.system})
        if self._settings.remembers:
            told += [message for turn in self._turns for message in turn.history(job)]
        return [*told, {"role": "user", "content": question}]

    def _stream(self, caller: Caller, job: str, body: dict[str, Any]) -> Callable[[], Any]:
        return lambda: self._service.answer_stream(caller, "chat/completions", body, job)

    @property
    def _answering(self) -> bool:
        return bool(self._turns) and not self._turns[-1].over

    def _show_answers(self) -> None:
        if not self._turns:
            return
        over = not self._answering  # first: what comes in after this is shown by the next look
        self._turns[-1].refresh()
        if over:
            self._switch(answering=False)

    def _cancel(self) -> None:
        for turn in self._turns[-1:]:
            for answer in turn.answers.values():
                answer.cancel()

    def _switch(self, *, answering: bool) -> None:
        self._timer.activate() if answering else self._timer.deactivate()
        self._send_button.set_visibility(not answering)
        self._cancel_button.set_visibility(answering)

    async def _offer_base(self) -> None:
        """Deploy the base beside it, at a person's word."""
        await deploy_base(self._acting, self._item)

    async def _act(self, action: str) -> None:
        await endpoint_actions.act(self._acting, action, self._item, self._url)

    async def _acted(self) -> None:
        await self._look()

    async def _look(self) -> bool:
        """Where the versions stand now."""
        caller = self._visitor.still()
        if caller is None:
            return False
        try:
            found = await asyncio.to_thread(_read, self._service, caller, self._item.job_id)
        except ServiceError as error:
            ui.notify(str(error), type="negative")
            return False
        self._item, self._others = found
        await asyncio.to_thread(self._device.read)
        if "inference.use" in self._visitor.caller.capabilities:
            self._settings.others = self._others
        for part in (self._device, *self._parts):
            part.refresh()
        return True


def _name(job: JobItem) -> str:
    return job.inference.model if job.inference else job.job_id
