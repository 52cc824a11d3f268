"""How a run comes to rest: its last event and move, and what can no longer be delivered."""

from sqlmodel import Session, select

from data import crash, events, journal
from data.lifecycle import ENDED, move
from data.tables import Control, Run, Steer, Step, now
from engine import lease
from engine.jobs import end_jobs
from engine.models import calls


def rest(s: Session, run: Run, state: str, reason: str | None) -> None:
    """Move the run to `state` with its last event. At an end, steers and stops are settled first."""
    if state in ENDED:
        _drop_steers(s, run.id)
        _settle_stops(s, run.id)
        end_jobs(s, run, state)
    word = f"run {state}" + (f": {reason}" if reason else "")
    events.append(s, run.id, "error" if state == "failed" else "message", word)
    events.show(s, run.id, phase=None, role=None, tool=None, text=None, done=None, total=None)
    move(s, run, state, reason)
    crash.point("in_rest")


def settle_leftovers(s: Session, run: str | None = None) -> None:
    """Settle what a run, or any run, left open: leases, calls without an answer, steps half done."""
    lease.end_leftovers(s, run)
    calls.settle_leftovers(s, run)
    query = select(Step).where(Step.status == "intent")
    for step in s.exec(query if run is None else query.where(Step.run == run)):
        journal.interrupt(s, step.id or 0)


def _drop_steers(s: Session, run: str) -> None:
    for steer in s.exec(select(Steer).where(Steer.run == run, Steer.status == "queued")):
        steer.status, steer.reason = "dropped", "the run ended before its next turn"
        s.add(steer)
        events.append(s, run, "steer", f"{steer.id} dropped: {steer.reason}")
        crash.point("in_steer")


def _settle_stops(s: Session, run: str) -> None:
    query = select(Control).where(
        Control.run == run, Control.action == "stop", Control.status == "requested"
    )
    for control in s.exec(query):
        control.status, control.done_at = "done", now()
        s.add(control)
