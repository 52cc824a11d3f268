"""Control requests as doors write them: stop, extend and resume, refused early where they cannot be."""

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, col, select

from app import shapes
from app.caller import Caller
from app.caps import checked_caps, whole
from app.errors import Conflict, InvalidRequest
from app.pending import Shown, shown
from app.runs import find_run
from data.lifecycle import ENDED
from data.tables import Control, Round, Run

ACTIONS = ("stop", "extend", "resume")
RESUMABLE = frozenset({"paused", "failed", "stopped"})


def need_for(caller: Caller, action: object) -> None:
    """AccessDenied unless the caller may ask for this action."""
    caller.need("training.run")
    if action == "stop":
        caller.need("training.stop")


def control(
    session: Session, caller: Caller, run: str, action: object, rounds: object, limits: object
) -> shapes.RunControl:
    """Record a request; the engine takes it up within a second, reads show it at once."""
    row = find_run(session, caller, run)
    if action not in ACTIONS:
        raise InvalidRequest(f"action: give one of {', '.join(ACTIONS)}")
    asked = _checked(row, action, rounds, limits)
    now = shown(session, [row])[row.id]
    refusal = _refusal(session, row, now, asked)
    if refusal is not None:
        raise Conflict(f"run {run} is {now.state}: {refusal}")
    if not (asked.action == "stop" and now.stop_requested):
        asked.author = caller.actor
        session.add(asked)
        session.flush()
    return control_shape(row, shown(session, [row])[row.id])


def control_shape(run: Run, now: Shown) -> shapes.RunControl:
    """A run as the answer to a control request shows it."""
    return shapes.RunControl(
        run=run.id,
        state=now.state,
        round=run.round,
        rounds_target=now.rounds_target,
        stop_requested=now.stop_requested,
    )


def _checked(run: Run, action: str, rounds: object, limits: object) -> Control:
    """The request as a row that is not written yet; InvalidRequest names what does not fit."""
    asked = Control(project_id=run.project_id, run=run.id, action=action, author="")
    if action != "extend":
        if rounds is not None or limits is not None:
            raise InvalidRequest(f"rounds, limits: only extend changes them, {action} does not")
        return asked
    rounds = whole(rounds)
    if not isinstance(rounds, int) or isinstance(rounds, bool) or not 1 <= rounds <= 1000:
        raise InvalidRequest("rounds: extend needs the new target, a whole number from 1 to 1000")
    asked.rounds = rounds
    if limits is not None:
        asked.limits = checked_caps(limits)
    return asked


def _refusal(session: Session, run: Run, now: Shown, asked: Control) -> str | None:
    """Why the run's state does not allow the request; None when it does."""
    if now.state == "unreadable":
        return "restore its record first"
    if asked.action == "stop":
        return "there is nothing to stop" if now.is_over else None
    if asked.action == "resume":
        halted = now.state in RESUMABLE
        return None if halted else "only a paused, failed or stopped run is resumed"
    done = _rounds_done(session, run)
    if asked.rounds is not None and asked.rounds <= done:
        return f"{done} rounds are done already, so give more than that"
    return _lowered(now.limits, asked.limits)


def _lowered(now: Mapping[str, Any], caps: Mapping[str, Any]) -> str | None:
    for name, value in caps.items():
        if now.get(name) is None:
            return f"limits.{name}: it has no such cap, which a new one would lower"
        if value < now[name]:
            return f"limits.{name}: caps may be raised, never lowered, and it is {now[name]}"
    return None


def _rounds_done(session: Session, run: Run) -> int:
    """Rounds that are over; the last one of a run that was cut short is taken up again."""
    query = select(Round.outcome).where(Round.run == run.id).order_by(col(Round.number))
    outcomes = list(session.exec(query))
    # Also while a resume waits to be carried out, though the run is shown as running by then.
    again = {None, "failed", "stopped"} if run.state in ENDED else {None}
    return len(outcomes) - 1 if outcomes and outcomes[-1] in again else len(outcomes)
