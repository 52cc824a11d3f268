"""How far a phase has come: its name, what is done of it, how long it may still take, and a bar."""

from collections.abc import Callable

from nicegui import ui

from app.shapes import Progress
from pages import words
from pages.live import Panel
from pages.parts import box, text

PHASES = {
    "prepare": "Preparing",
    "diagnose": "Finding failures",
    "plan": "Planning",
    "collect": "Collecting answers",
    "admit": "Admitting rows",
    "data_audit": "Auditing the data",
    "train": "Training",
    "develop": "Evaluating on dev",
    "blind": "Evaluating on blind",
    "audit": "Auditing",
    "gate": "Deciding",
    "evaluate": "Evaluating",
}


class ProgressLine:
    """The words and the bar of what `read` says; the bar moves in place."""

    def __init__(self, read: Callable[[], Progress | None]) -> None:
        self._read = read
        self._words = Panel(self._draw_words, read)
        self._bar = ui.linear_progress(size="6px", show_value=False)
        self._bar.classes("pw-progress").props("aria-hidden=true")
        self._move_bar()

    def refresh(self) -> None:
        """Bring both up to date."""
        self._words.refresh()
        self._move_bar()

    def _move_bar(self) -> None:
        share = _share(self._read())
        self._bar.set_visibility(share is not None)
        self._bar.value = share or 0.0

    def _draw_words(self) -> None:
        progress = self._read()
        if progress is None:
            return
        with box("pw-row pw-between pw-wrap pw-phase-words"):
            with box("pw-row pw-wrap"):
                text(PHASES.get(progress.phase, progress.phase.capitalize()), "pw-strong")
                text(done_text(progress), "pw-2")
            share = _share(progress)
            if share is not None:
                with box("pw-row"):
                    text(f"{100 * share:.0f}%", "pw-strong")
                    if progress.seconds_left is not None:
                        text(f"about {words.duration(progress.seconds_left)} left", "pw-2")


def done_text(progress: Progress) -> str:
    """What is counted, as far as it can be."""
    if progress.done is None or not progress.total:
        return progress.text or ""
    counted = f"{words.count(progress.done)} of {words.count(progress.total)}"
    return f"{counted} {progress.text}" if progress.text else counted


def _share(progress: Progress | None) -> float | None:
    """How much of the phase is done, 0 to 1, where it can be counted."""
    if progress is None or progress.done is None or not progress.total:
        return None
    return min(1.0, progress.done / progress.total)
