"""The field for training rows: pasted as JSON lines, or read from a file, and counted at once."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from nicegui import events, ui

from pages import words
from pages.parts import box, text
from pages.settings_parts import refusal

LARGEST_FILE = 32_000_000  # bytes
LONGEST_PASTE = 200_000  # characters; what is longer comes as a file
EXAMPLE = (
    '{"messages": [{"role": "user", "content": "17 + 25 = ?"}], "completion": "42"}\n'
    '{"messages": [{"role": "user", "content": "8 + 5 = ?"}], "completion": "13"}'
)


class RowsField:
    """Draws itself; `rows` is what was given, None where it cannot be read."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._file: str | None = None
        self.rows: list[Any] | None = []
        text("Rows", "pw-label", "div")
        self._draw_upload()
        self._pasted = ui.textarea(placeholder=EXAMPLE)
        self._pasted.props(
            f'outlined dense autogrow rows=5 maxlength={LONGEST_PASTE} debounce=300 aria-label="Rows"'
        )
        self._pasted.classes("pw-wide pw-mono pw-gap pw-rows").mark("field-rows")
        self._pasted.on_value_change(lambda event: self._read(str(event.value or "")))
        self._told = text("", "pw-2 pw-small", "div")
        self._note = box("pw-gap")
        self._tell()

    def _draw_upload(self) -> None:
        with box("pw-row pw-wrap"):
            upload = ui.upload(
                label="JSON lines",
                on_upload=self._uploaded,
                on_rejected=lambda: self._refuse(
                    "The file is larger than 32 MB, or no JSON lines."
                ),
                max_file_size=LARGEST_FILE,
                auto_upload=True,
            )
            upload.props('accept=".jsonl,.json,.ndjson,.txt"').classes("pw-hidden")
            choose = ui.button("Choose a file", icon="sym_o_upload_file", color=None)
            choose.props("no-caps outline").on_click(lambda: upload.run_method("pickFiles"))
            self._from = text("or paste JSON lines below", "pw-2 pw-small")
            self._away = ui.button("Take it away", icon="sym_o_close", color=None)
            self._away.props("no-caps flat").classes("pw-flat pw-sm").on_click(self._take_away)
            self._away.set_visibility(False)
        self._upload = upload

    async def _uploaded(self, event: events.UploadEventArguments) -> None:
        try:
            given = await event.file.text()
        except UnicodeDecodeError:
            self._refuse("The file is not UTF-8 text.")
            return
        self._file = event.file.name
        self._pasted.set_visibility(False)
        self._away.set_visibility(True)
        self._from.text = f"from {self._file}"
        self._upload.reset()
        rows = await asyncio.to_thread(_parsed, given)
        self._took(rows)

    def _take_away(self) -> None:
        self._file = None
        self._from.text = "or paste JSON lines below"
        self._away.set_visibility(False)
        self._pasted.set_visibility(True)
        self._read(str(self._pasted.value or ""))

    def _read(self, given: str) -> None:
        if self._file is None:
            self._took(_parsed(given))

    def _took(self, rows: "list[Any] | str") -> None:
        self._note.clear()
        self.rows = None if isinstance(rows, str) else rows
        if isinstance(rows, str):
            self._refuse(rows)
        self._tell()
        self._changed()

    def _tell(self) -> None:
        if self.rows is None:
            self._told.text = ""
        elif self.rows:
            plural = "" if len(self.rows) == 1 else "s"
            self._told.text = f"{words.count(len(self.rows))} row{plural}"
        else:
            self._told.text = (
                "One JSON object a line: messages with role and content, and the completion that is "
                "trained; or messages that end with the assistant's answer."
            )

    def _refuse(self, message: str) -> None:
        refusal(self._note, message)


def _parsed(given: str) -> "list[Any] | str":
    """The rows of JSON lines or of one JSON list; where there is none, what is wrong in which line."""
    given = given.removeprefix("\ufeff").strip()
    if given.startswith("["):
        try:
            found = json.loads(given)
        except ValueError as wrong:
            return f"This is no JSON list: {wrong}"
        return list(found)
    rows = []
    for number, line in enumerate(given.splitlines(), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as wrong:
                return f"Line {number} is no JSON: {wrong}"
    return rows
