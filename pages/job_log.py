"""A job's log on its page: newest line on top, growing while the job goes on."""

from nicegui import ui

from app.errors import ServiceError
from app.job_shapes import LogLine
from pages import words
from pages.browser import When
from pages.job_view import JobView
from pages.parts import box, card, icon, named, text
from pages.place import Place

SOURCES = {"all": "All sources", "system": "Engine", "runtime": "Training steps"}
SHOWN = 500


class LogCard:
    """The lines of the chosen source; the choice lives in the address."""

    def __init__(self, view: JobView, place: Place) -> None:
        self._view, self._place = view, place
        asked = place.get("source")
        self._last: str | None = None
        with card("Log", "newest first") as head:
            with head:
                box("pw-grow")
                source = asked if asked in SOURCES else "all"
                select = ui.select(SOURCES, value=source)
                select.props("outlined dense options-dense").style("width: 140px")
                named(select, "Source").mark("log-source")
                select.on_value_change(lambda event: self._choose(str(event.value)))
            self._none = text("", "pw-quiet", "div")
            self._list = box("pw-events pw-log").props('tabindex=0 role=log aria-label="Log"')
        if source != view.source:
            self._choose(source)
        else:
            self.refresh()

    def refresh(self) -> None:
        """Put what was added on top."""
        for line in self._fresh():
            with self._list:
                _line(line).move(target_index=0)
        rows = self._list.default_slot.children
        for row in rows[SHOWN:]:
            self._list.remove(row)
        self._none.set_visibility(not rows)
        over = self._view.log_over
        self._none.text = "It wrote nothing." if over else "Nothing is written yet."

    def _fresh(self) -> list[LogLine]:
        """The lines after the last one that stands on the page."""
        lines = self._view.lines
        at = next((n for n, line in enumerate(lines) if line.id == self._last), -1)
        fresh = lines[at + 1 :][-SHOWN:]
        self._last = lines[-1].id if lines else None
        return fresh

    def _choose(self, source: str) -> None:
        if source not in SOURCES:
            return
        self._place.ask(source="" if source == "all" else source)
        self._view.choose(source)
        try:
            self._view.read_log()
        except ServiceError as error:
            ui.notify(str(error), type="negative")
        self._list.clear()
        self._last = None
        self.refresh()


def _line(line: LogLine) -> ui.element:
    with box(f"pw-ev {'pw-err-ev' if line.level == 'error' else ''}") as row:
        error = line.level == "error"
        mark = "sym_o_error" if error else "sym_o_settings"
        icon(mark if line.source == "system" or error else "sym_o_trending_down")
        text(line.content or words.DASH, "pw-txt pw-mono")
        When(line.at, "age").classes("pw-tm")
    return row
