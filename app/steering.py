"""What people say to a run: steers for the moment, directives for all later rounds."""

import secrets

from sqlmodel import Session

from app import shapes
from app.caller import Caller
from app.errors import InvalidDirective, InvalidRequest, InvalidSteer, RunNotActive
from app.pending import UNREADABLE, shown
from app.runs import find_run
from data.tables import Directive, Run, Steer

LONGEST = 4000  # characters


def steer(session: Session, caller: Caller, run: str, text: object) -> shapes.SteerTicket:
    """Queue a steer; the engine delivers it at the run's next turn, or drops it with a reason."""
    row = find_run(session, caller, run)
    said = checked_text(text, InvalidSteer)
    state = _state(session, row)
    if state not in ("starting", "running", "paused"):
        raise RunNotActive(f"run {run} is {state}: nobody would read a steer; extend it first")
    new = Steer(
        id=_new_id("steer"), project_id=row.project_id, run=run, text=said, author=caller.actor
    )
    session.add(new)
    return shapes.SteerTicket(id=new.id, status=new.status, at=new.created_at)


def add_directive(
    session: Session, caller: Caller, run: str, text: object
) -> shapes.DirectiveShape:
    """Add a standing instruction, in any state of the run that can be read."""
    row = find_run(session, caller, run)
    said = checked_text(text, InvalidDirective)
    if _state(session, row) == UNREADABLE:
        raise RunNotActive(f"run {run} cannot be read here, so nothing can be added to it")
    new = Directive(
        id=_new_id("dir"), project_id=row.project_id, run=run, text=said, author=caller.actor
    )
    session.add(new)
    return shapes.DirectiveShape(id=new.id, text=said, author=new.author, at=new.created_at)


def checked_text(text: object, refusal: type[InvalidRequest]) -> str:
    """A text of 1 to 4000 characters that is not blank; `refusal` says what is wrong."""
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
        raise refusal(f"text: give 1 to {LONGEST} characters that are not all blank")
    if not is_unicode(text):
        raise refusal("text: it has half a character in it, which no font can show")
    return text


def is_unicode(text: str) -> bool:
    """Whether a text is whole characters; JSON can carry halves, which no file takes."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _new_id(kind: str) -> str:
    return f"{kind}-{secrets.token_hex(5)}"


def _state(session: Session, run: Run) -> str:
    return shown(session, [run])[run.id].state
