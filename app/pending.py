"""What people have asked of runs and jobs that the engine has not carried out yet, as reads show it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlmodel import Session, col, select

from data.lifecycle import ENDED, unreadable
from data.tables import Control, Job, JobControl, Run
from recipes.domains import DOMAINS

UNREADABLE = "unreadable"  # never stored


@dataclass(kw_only=True, slots=True, frozen=True)
class Shown:
    """A run as people should see it. `state` is never an end that the engine has not recorded."""

    state: str
    reason: str | None
    rounds_target: int
    stop_requested: bool = False
    limits: dict[str, Any] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether nobody works on the run, or will without being asked."""
        return self.state in ENDED or self.state == UNREADABLE


def shown(session: Session, runs: Sequence[Run]) -> dict[str, Shown]:
    """Each run with its requested stops, resumes and extensions laid over it, oldest first."""
    query = select(Control).where(
        col(Control.run).in_([run.id for run in runs]), Control.status == "requested"
    )
    found = {run.id: _as_stored(run) for run in runs}
    for control in session.exec(query.order_by(col(Control.id))):
        found[control.run] = _after(found[control.run], control)
    return found


def _as_stored(run: Run) -> Shown:
    broken = unreadable(run, DOMAINS)
    return Shown(
        state=UNREADABLE if broken else run.state,
        reason=broken or run.reason,
        rounds_target=run.rounds_target,
        limits=run.limits,
    )


def _after(run: Shown, control: Control) -> Shown:
    if run.state == UNREADABLE:
        return run
    if control.action == "stop":
        return replace(run, stop_requested=run.state not in ENDED)
    if control.action == "extend":
        run = replace(
            run,
            rounds_target=control.rounds or run.rounds_target,
            limits=run.limits | control.limits,
        )
    halted = ENDED if control.action == "extend" else ENDED | {"paused"}
    goes_on = run.state in halted or (run.state == "paused" and run.stop_requested)
    return replace(run, state="running", reason=None, stop_requested=False) if goes_on else run


def asked_of_jobs(session: Session, rows: Sequence[Job]) -> dict[str, list[str]]:
    """What was asked of jobs that no loop started, by job, oldest first."""
    found: dict[str, list[str]] = {}
    query = select(JobControl).where(
        col(JobControl.job).in_([row.id for row in rows]), JobControl.status == "requested"
    )
    for control in session.exec(query.order_by(col(JobControl.id))):
        found.setdefault(control.job, []).append(control.action)
    return found
