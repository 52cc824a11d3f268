"""The card of the six steps: the rail, and under it how far the phase has come."""

from nicegui import ui

from app.shapes import Progress, RunDetail, StepState
from pages import states, words
from pages.browser import When
from pages.live import Panel
from pages.parts import box, icon, text
from pages.run_view import RunView

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
}


class StepsCard:
    """Step rail (segments on a phone), progress bar and who works; the bar moves in place."""

    def __init__(self, view: RunView) -> None:
        self._view = view
        with box("pw-card pw-steps", "section").props('aria-label="Steps"'):
            self._rail = Panel(self._draw_rail, lambda: (view.detail.steps, self._figure))
            with box("pw-phase") as self._phase:
                self._words = Panel(self._draw_words, lambda: self._progress)
                self._bar = ui.linear_progress(size="6px", show_value=False)
                self._bar.classes("pw-progress").props("aria-hidden=true")
                self._workers = Panel(self._draw_workers, lambda: self._working)
            self._plan = Panel(self._draw_plan, lambda: _hypothesis(view.detail))
        self._move_bar()

    def refresh(self) -> None:
        """Bring every part up to date."""
        for part in (self._rail, self._words, self._workers, self._plan):
            part.refresh()
        self._move_bar()

    @property
    def _progress(self) -> Progress | None:
        return None if self._view.ended else self._view.live.progress

    @property
    def _figure(self) -> str | None:
        return _done_text(self._progress) if self._progress else None

    @property
    def _working(self) -> object:
        progress = self._progress
        times = (progress.started_at, progress.updated_at) if progress else None
        return (self._view.live.current, times)

    def _move_bar(self) -> None:
        share = _share(self._progress)
        self._phase.set_visibility(self._progress is not None)
        self._bar.set_visibility(share is not None)
        self._bar.value = share or 0.0

    def _draw_rail(self) -> None:
        steps = self._view.detail.steps
        with box("pw-rail pw-desk", "ol"):
            for number, step in enumerate(steps, 1):
                _step(number, step, self._figure)
        _segments(steps)

    def _draw_words(self) -> None:
        progress = self._progress
        if progress is None:
            return
        with box("pw-row pw-between pw-wrap pw-phase-words"):
            with box("pw-row pw-wrap"):
                text(PHASES.get(progress.phase, progress.phase.capitalize()), "pw-strong")
                text(_done_text(progress), "pw-2")
            share = _share(progress)
            if share is not None:
                with box("pw-row"):
                    text(f"{100 * share:.0f}%", "pw-strong")
                    if progress.seconds_left is not None:
                        text(f"about {words.duration(progress.seconds_left)} left", "pw-2")

    def _draw_workers(self) -> None:
        if self._progress is not None:
            _workers(self._view, self._progress)

    def _draw_plan(self) -> None:
        hypothesis = _hypothesis(self._view.detail)
        if hypothesis:
            with box("pw-plan"):
                icon("sym_o_edit_note")
                text("Plan of the round: ")
                text(hypothesis, "pw-ink pw-break")


def _share(progress: Progress | None) -> float | None:
    """How much of the phase is done, 0 to 1, where it can be counted."""
    if progress is None or progress.done is None or not progress.total:
        return None
    return min(1.0, progress.done / progress.total)


def _hypothesis(run: RunDetail) -> str | None:
    return next((r.hypothesis for r in reversed(run.rounds) if r.hypothesis), None)


def _step(number: int, step: StepState, now: str | None) -> None:
    figure = now if step.state == "now" else step.text
    if figure in states.DECISIONS:
        figure = states.DECISIONS[figure].word
    with box(f"pw-step pw-{step.state}", "li"):
        with box("pw-dot", "span"):
            if step.state == "done":
                icon("sym_o_done")
            elif step.state == "failed":
                icon("sym_o_close")
            else:
                text(str(number))
        text(step.name[:1].upper() + step.name[1:], "pw-w", "div")
        text(figure or words.DASH, "pw-l2")


def _segments(steps: list[StepState]) -> None:
    at = next((n for n, step in enumerate(steps, 1) if step.state == "now"), None)
    with box("pw-mobile"):
        with box("pw-row pw-between pw-small pw-2"):
            done = sum(step.state == "done" for step in steps)
            text(f"Step {at} of {len(steps)}" if at else f"{done} of {len(steps)} steps done")
            if at and at < len(steps):
                text(f"next: {steps[at].name}")
        with box("pw-segs").props("aria-hidden=true"):
            for step in steps:
                box(f"pw-{step.state}", "i")


def _done_text(progress: Progress) -> str:
    if progress.done is None or not progress.total:
        return progress.text or ""
    counted = f"{words.count(progress.done)} of {words.count(progress.total)}"
    return f"{counted} {progress.text}" if progress.text else counted


def _workers(view: RunView, progress: Progress) -> None:
    """Who works with what, since when, and when it was last heard of."""
    current = view.live.current
    with box("pw-meta"):
        if current is not None:
            with box(tag="span"):
                icon(states.ROLE_ICONS.get(current.role, states.UNKNOWN_ICON))
                text("role")
                text(current.role, "pw-strong pw-ink")
            if current.tool:
                with box(tag="span"):
                    icon("sym_o_build")
                    text("tool")
                    text(current.tool, "pw-strong pw-ink")
        if progress.started_at:
            with box(tag="span"):
                text("for")
                When(progress.started_at, "elapsed")
        with box(tag="span"):
            text("heartbeat")
            When(progress.updated_at, "ago")
