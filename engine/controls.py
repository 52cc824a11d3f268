"""Control requests: stop, resume and extend, carried out here unless a driver must see to them."""

from collections.abc import Container

from sqlmodel import Session, col, select

from data import crash, ledger
from data.lifecycle import ENDED, move, unreadable
from data.tables import Account, Control, Round, Run, now
from engine.jobs import begin_job
from engine.run_end import rest


def carry_out(s: Session, driven: set[str], domains: Container[str]) -> None:
    """Carry out what is requested. The stop of a run in `driven` waits for its driver.

    Nothing is done to a run that cannot be read.
    """
    query = select(Control).where(Control.status == "requested").order_by(col(Control.id))
    for control in s.exec(query).all():
        if control.run in driven and control.action == "stop":
            continue
        run = s.get_one(Run, control.run)
        is_done = unreadable(run, domains) is None and _apply(s, run, control)
        control.status = "done" if is_done else "refused"
        control.done_at, control.after_round = now(), run.round
        s.add(control)
    crash.point("in_controls")


def _apply(s: Session, run: Run, control: Control) -> bool:
    """Whether the run's state allowed it."""
    if control.action == "stop" and run.state not in ENDED:
        rest(s, run, "stopped", f"stopped by {control.author}")
        return True
    if control.action == "extend":
        _raise_caps(s, run, control)
        run.rounds_target = control.rounds or run.rounds_target
        if run.state in ENDED:
            _go_on(s, run)
        return True
    if control.action == "resume" and run.state in {"paused", "failed", "stopped"}:
        _go_on(s, run)
        return True
    return False


def _go_on(s: Session, run: Run) -> None:
    """Run again; a last round that was cut short or failed is taken up where it stood."""
    move(s, run, "running", None)
    query = select(Round).where(Round.run == run.id).order_by(col(Round.number).desc())
    last = s.exec(query).first()
    if last is not None and last.outcome in {"failed", "stopped"}:
        last.outcome, last.reason, last.ended_at = None, None, None
        s.add(last)
        begin_job(s, run, last.number)


def _raise_caps(s: Session, run: Run, control: Control) -> None:
    """Caps may be raised, never lowered; what was spent stays spent."""
    account = s.get(Account, f"run:{run.id}")
    for name, column in ledger.CAPS.items():
        asked = control.limits.get(name)
        if asked is None or asked < run.limits.get(name, 0):
            continue
        run.limits = run.limits | {name: asked}
        if account is not None:
            setattr(account, column, ledger.cap_value(name, asked))
            s.add(account)
    s.add(run)
