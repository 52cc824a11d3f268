"""The card of the six steps: the rail, and under it how far the phase has come."""

from app.shapes import Progress, RunDetail, StepState
from pages import states, words
from pages.browser import When
from pages.live import Panel
from pages.parts import box, icon, text
from pages.progress_line import ProgressLine, done_text
from pages.run_view import RunView


class StepsCard:
    """Step rail (segments on a phone), progress bar and who works; the bar moves in place."""

    def __init__(self, view: RunView) -> None:
        self._view = view
        with box("pw-card pw-steps", "section").props('aria-label="Steps"'):
            self._rail = Panel(self._draw_rail, lambda: (view.detail.steps, self._figure))
            with box("pw-phase") as self._phase:
                self._line = ProgressLine(lambda: self._progress)
                self._workers = Panel(self._draw_workers, lambda: self._working)
            self._plan = Panel(self._draw_plan, lambda: _hypothesis(view.detail))
        self._show_phase()

    def refresh(self) -> None:
        """Bring every part up to date."""
        for part in (self._rail, self._line, self._workers, self._plan):
            part.refresh()
        self._show_phase()

    @property
    def _progress(self) -> Progress | None:
        return None if self._view.ended else self._view.live.progress

    @property
    def _figure(self) -> str | None:
        return done_text(self._progress) if self._progress else None

    @property
    def _working(self) -> object:
        progress = self._progress
        times = (progress.started_at, progress.updated_at) if progress else None
        return (self._view.live.current, times)

    def _show_phase(self) -> None:
        self._phase.set_visibility(self._progress is not None)

    def _draw_rail(self) -> None:
        steps = self._view.detail.steps
        with box("pw-rail pw-desk", "ol"):
            for number, step in enumerate(steps, 1):
                _step(number, step, self._figure)
        _segments(steps)

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
