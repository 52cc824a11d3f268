"""How a chat asks: system prompt, sampling, memory, and the version that it is compared with."""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from app.job_shapes import JobItem
from pages.deploy import base_of
from pages.endpoints_table import sign_of
from pages.live import Panel
from pages.parts import box, named, pill, text
from pages.run_dialogs import whole

NOBODY = ""
MAX_TOKENS, LARGEST = 128, 8192


class ChatSettings:
    """The fields above a chat; `others` are the versions that it can be compared with."""

    def __init__(
        self,
        item: JobItem,
        others: list[JobItem],
        deploy_base: Callable[[], Awaitable[None]],
    ) -> None:
        self._item, self.others, self._deploy_base = item, others, deploy_base
        self._chosen: str | None = None  # None: nobody has chosen, so the base where it is deployed
        found = item.inference
        harness = found.system if found else None
        with box("pw-card pw-chat-set", "section").props('aria-label="Settings"'):
            self._draw_system(harness)
            with box("pw-row pw-wrap").style("gap: 12px 16px"):
                self._max = _number("Max tokens", MAX_TOKENS, "field-max_tokens", 1, LARGEST)
                self._heat = _number("Temperature", 0, "field-temperature", 0, 2)
                self._alone = ui.switch("Each question on its own", value=harness is not None)
                self._alone.mark("alone")
                box("pw-grow")
                self._compare = Panel(self._draw_compare, self._compared_with)

    def refresh(self) -> None:
        """Offer what is deployed now."""
        self._compare.refresh()

    @property
    def system(self) -> str:
        """What the versions are told before the question."""
        return str(self._system.value or "").strip()

    @property
    def remembers(self) -> bool:
        """Whether earlier turns are told too."""
        return not self._alone.value

    @property
    def compared(self) -> list[JobItem]:
        """The version beside it, if any."""
        return [one for one in self.others if one.job_id == self._beside()]

    def body(self, model: str, messages: list[dict[str, str]]) -> dict[str, Any]:
        """A request in the words of OpenAI's API."""
        return {
            "model": model,
            "messages": messages,
            "max_tokens": whole(self._max.value) or MAX_TOKENS,
            "temperature": float(self._heat.value or 0),
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _draw_system(self, harness: str | None) -> None:
        told = (
            "as in its evaluation; edit it as you like, left empty it holds all the same"
            if harness
            else "none was recorded"
        )
        with box("pw-row"):
            text("System prompt", "pw-label").style("margin-top: 0")
            text(told, "pw-2 pw-small")
        self._system = ui.textarea(value=harness or "")
        self._system.props('outlined dense autogrow rows=1 aria-label="System prompt"')
        self._system.classes("pw-wide").mark("system")

    def _beside(self) -> str:
        """The job of the version beside it; NOBODY for none."""
        ids = {one.job_id for one in self.others}
        if self._chosen is not None:
            return self._chosen if self._chosen in ids else NOBODY
        base = base_of(self._item, self.others)
        return base.job_id if base is not None else NOBODY

    def _compared_with(self) -> object:
        names = [(one.job_id, sign_of(one).word) for one in self.others]
        return (names, self._beside())

    def _draw_compare(self) -> None:
        names = {one.job_id: one.inference.model for one in self.others if one.inference}
        beside = self._beside()
        with box("pw-row pw-wrap"):
            text("Compare with", "pw-2 pw-small")
            choice = ui.select({NOBODY: "Nobody", **names}, value=beside)
            named(choice.props("outlined dense options-dense"), "Compare with").mark("compare")
            choice.style("min-width: 180px")
            choice.on_value_change(lambda event: self._choose(str(event.value)))
            for one in self.compared:
                pill(sign_of(one))
            is_tuned = self._item.inference is not None and self._item.inference.checkpoint
            if is_tuned and base_of(self._item, self.others) is None:
                add = ui.button("Deploy the base too", icon="sym_o_add", color=None)
                add.props("no-caps outline").mark("deploy-base").on_click(self._deploy_base)

    def _choose(self, job: str) -> None:
        self._chosen = job
        self._compare.refresh()


def _number(label: str, value: float, mark: str, least: float, most: float) -> ui.number:
    with box("pw-row"):
        text(label, "pw-2 pw-small")
        field = ui.number(value=value, min=least, max=most)
        field.props(f'outlined dense aria-label="{label}"').style("width: 76px").mark(mark)
    return field
