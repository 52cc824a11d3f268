"""Control requests: stop, resume, extend, carried out where no driver is at work on the run."""

from sqlmodel import Session, col, select

from data import events
from data.lifecycle import ENDED, move
from data.tables import Control, Run, now


def carry_out(s: Session, driven: set[str]) -> None:
    """Carry out what is requested for runs outside `driven`; the drivers see to their own stops."""
    query = select(Control).where(Control.status == "requested").order_by(col(Control.id))
    for control in s.exec(query):
        if control.run not in driven:
            run = s.get_one(Run, control.run)
            control.status = "done" if _apply(s, run, control) else "refused"
            control.done_at = now()
            s.add(control)
        elif control.action == "extend":
            _extend(s, s.get_one(Run, control.run), control)
            control.status, control.done_at = "done", now()
            s.add(control)


def _apply(s: Session, run: Run, control: Control) -> bool:
    if control.action == "stop" and run.state not in ENDED:
        events.append(s, run.id, "message", f"run stopped by {control.author}")
        move(s, run, "stopped", f"stopped by {control.author}")
        return True
    if control.action == "extend":
        _extend(s, run, control)
        if run.state in ENDED and run.round < run.rounds_target:
            move(s, run, "running", None)
        return True
    if control.action == "resume" and run.state in {"paused", "failed", "stopped"}:
        move(s, run, "running", None)
        return True
    return False


def _extend(s: Session, run: Run, control: Control) -> None:
    if control.rounds:
        run.rounds_target, run.updated_at = control.rounds, now()
        s.add(run)
