"""The tab Overview: where the run is, what happens now, how scores and loss develop."""

from nicegui import ui

from app.shapes import JobShape, Progress, RunDetail, SteerShape, StepState
from pages import states, words
from pages.browser import When
from pages.charts import ChartCard, loss_chart, score_chart
from pages.live import Panel, Part
from pages.parts import box, card, icon, pill, text
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
ROLE_ICONS = {
    "engine": "sym_o_settings",
    "operator": "sym_o_edit_note",
    "teacher": "sym_o_menu_book",
    "student": "sym_o_school",
    "verifier": "sym_o_rule",
    "auditor": "sym_o_policy",
}


def panels(view: RunView) -> list[Part]:
    """Draw the tab; the panels that the page refreshes."""
    steps = Panel(lambda: _steps_card(view), lambda: (view.detail.steps, _now(view)))
    drawn: list[Part] = [steps]
    with box("pw-cols3"):
        with box("pw-stack"):
            drawn.append(Panel(lambda: _events_card(view), lambda: list(view.events)))
        with box("pw-stack"):
            drawn.append(ChartCard(lambda: score_chart(view.detail)))
            drawn.append(ChartCard(lambda: loss_chart(view.live)))
        with box("pw-stack"):
            drawn.append(Panel(lambda: _steers_card(view.live.steers), lambda: view.live.steers))
            drawn.append(Panel(lambda: _jobs_card(view.live.jobs), lambda: view.live.jobs))
    return drawn


def _now(view: RunView) -> object:
    return (view.live.progress, view.live.current, view.live.phase, _hypothesis(view.detail))


def _hypothesis(run: RunDetail) -> str | None:
    return next((r.hypothesis for r in reversed(run.rounds) if r.hypothesis), None)


def _steps_card(view: RunView) -> None:
    """The step rail (segments on a phone) with the progress of the phase under it."""
    with box("pw-card", "section").style("padding: 16px 16px 14px").props('aria-label="Steps"'):
        steps = view.detail.steps
        with box("pw-rail pw-desk", "ol").style("list-style: none; margin: 0; padding: 0"):
            for number, step in enumerate(steps, 1):
                _step(number, step, view.live.progress)
        _segments(steps)
        if view.live.progress is not None and not view.ended:
            _progress(view, view.live.progress)
        hypothesis = _hypothesis(view.detail)
        if hypothesis:
            with box("pw-plan"):
                icon("sym_o_edit_note")
                text("Plan of the round: ")
                text(hypothesis, "pw-ink pw-break")


def _step(number: int, step: StepState, progress: Progress | None) -> None:
    figure = step.text
    if step.state == "now" and progress is not None:
        figure = _done_text(progress)
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


def _progress(view: RunView, progress: Progress) -> None:
    with box("pw-phase"):
        with box("pw-row pw-between pw-wrap").style("margin-bottom: 6px"):
            with box("pw-row pw-wrap"):
                text(PHASES.get(progress.phase, progress.phase.capitalize()), "pw-strong")
                text(_done_text(progress), "pw-2")
            if progress.done is not None and progress.total:
                share = min(1.0, progress.done / progress.total)
                with box("pw-row"):
                    text(f"{100 * share:.0f}%", "pw-strong")
                    if progress.seconds_left is not None:
                        text(f"about {words.duration(progress.seconds_left)} left", "pw-2")
        if progress.done is not None and progress.total:
            bar = ui.linear_progress(share, size="6px", show_value=False)
            bar.props(f'instant-feedback aria-label="{100 * share:.0f}%"').classes("pw-progress")
        _working(view, progress)


def _done_text(progress: Progress) -> str:
    if progress.done is None or not progress.total:
        return progress.text or ""
    counted = f"{words.count(progress.done)} of {words.count(progress.total)}"
    return f"{counted} {progress.text}" if progress.text else counted


def _working(view: RunView, progress: Progress) -> None:
    """Who works with what, since when, and when it was last heard of."""
    current = view.live.current
    with box("pw-meta"):
        if current is not None:
            with box(tag="span"):
                icon(ROLE_ICONS.get(current.role, states.UNKNOWN_ICON))
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


def _events_card(view: RunView) -> None:
    with card("Live events", "newest first"):
        if not view.events:
            text("Nothing has happened yet.", "pw-quiet", "div")
        with box("pw-events").props('tabindex=0 role=log aria-label="Live events"'):
            for event in view.events:
                with box(f"pw-ev {'pw-err-ev' if event.kind == 'error' else ''}"):
                    sign = icon(states.EVENT_ICONS.get(event.kind, states.UNKNOWN_ICON))
                    sign.props(f'title="{event.kind}"' if event.kind in states.EVENT_ICONS else "")
                    with box("pw-txt"):
                        text(event.role, "pw-who")
                        text(event.text)
                    When(event.at, "age").classes("pw-tm")


def _steers_card(steers: list[SteerShape]) -> None:
    """Each steer with its receipt, newest first."""
    with card("Steers", str(len(steers)) if steers else ""):
        if not steers:
            text("No steer was given.", "pw-quiet", "div")
        for steer in reversed(steers):
            with box("pw-rec"):
                text(steer.text, "pw-q", "div")
                with box("pw-trail"):
                    sign = states.of(states.STEERS, steer.status)
                    with box(sign.css, "span"):
                        icon(sign.icon)
                        text(_receipt(steer))
                    if steer.round is not None and steer.status == "delivered":
                        text(f"cited by plan, round {steer.round}")
                    with box(tag="span"):
                        text(f"{steer.author},")
                        When(steer.at)


def _receipt(steer: SteerShape) -> str:
    if steer.status == "queued":
        return "queued, waits for the next turn"
    return f"{steer.status}: {steer.reason}" if steer.reason else steer.status


def _jobs_card(jobs: list[JobShape]) -> None:
    with card("Jobs of this run", str(len(jobs)) if jobs else ""):
        if not jobs:
            text("No job was started yet.", "pw-quiet", "div")
            return
        with box("pw-jobs", "table"):
            with box(tag="thead"), box(tag="tr"):
                for word, css in (("Job", ""), ("Type", ""), ("Round", "pw-num"), ("Status", "")):
                    text(word, css, "th")
            with box(tag="tbody"):
                for job in reversed(jobs):
                    _job(job)


def _job(job: JobShape) -> None:
    with box(tag="tr"):
        text(job.job_id, "pw-mono", "td").props["title"] = job.job_id
        text(job.type, tag="td")
        text(str(job.round) if job.round is not None else words.DASH, "pw-num", "td")
        with box(tag="td"):
            pill(states.of(states.JOBS, job.status), "pw-plain")
