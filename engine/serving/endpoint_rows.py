"""The rows of deployed versions: what was asked of them, and what the engine says of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from data.store import Reader
from data.tables import INSERTED, Job, JobControl, now
from engine.errors import EndpointNotReady

KIND = "inference"
ACTIVE = ("queued", "starting", "running")


def recover(s: Session) -> None:
    """After a start: endpoints are there again, asleep; one that was starting is taken up anew."""
    for row in _active(s):
        row.status = "queued" if row.status == "starting" else row.status
        if row.status == "running" and row.result.get("state") != "paused":
            _write(s, row, "asleep")
        s.add(row)


def has_requests(store: Reader) -> bool:
    """Whether anything is asked of an endpoint."""
    with store.read() as session:
        return session.exec(_requests()).first() is not None


def is_asked(store: Reader, job: str) -> bool:
    """Whether a job waits to be taken up, or for a request to be carried out."""
    with store.read() as session:
        row = session.get(Job, job)
        query = _requests().where(JobControl.job == job)
        queued = row is not None and row.status == "queued"
        return queued or session.exec(query).first() is not None


def carry_out(s: Session) -> list[tuple[str, bool]]:
    """Carry out every request; the jobs, and whether each is to be woken."""
    done = []
    for control in s.exec(_requests().order_by(col(JobControl.id))).all():
        row = s.get_one(Job, control.job)
        is_done = row.status in ACTIVE and _apply(s, row, control.action)
        control.status, control.done_at = "done" if is_done else "refused", now()
        s.add(control)
        done.append((row.id, is_done and control.action == "wake"))
    return done


def _apply(s: Session, row: Job, action: str) -> bool:
    state = row.result.get("state")
    if action == "stop":
        row.status, row.finished_at = "cancelled", now()
        _write(s, row, "ended")
    elif action == "pause":
        _write(s, row, "paused")
    elif action == "resume" and state == "paused":
        _write(s, row, "asleep")
    elif state == "paused":
        return False
    return True


def queued(store: Reader) -> list[Job]:
    """Endpoints that nobody has taken up yet, oldest first."""
    query = select(Job).where(Job.type == KIND, Job.status == "queued").order_by(INSERTED)
    with store.read() as session:
        return list(session.exec(query))


def begin(s: Session, job: str) -> bool:
    """Take a new endpoint up; False when it was ended meanwhile."""
    row = s.get_one(Job, job)
    if row.status != "queued":
        return False
    row.status = "starting"
    if row.result.get("state") != "paused":
        _write(s, row, "waking")
    s.add(row)
    return True


@dataclass(kw_only=True, slots=True, frozen=True)
class Outcome:
    """What came of taking an endpoint up; `engine` is that of the process that answers."""

    status: str
    reason: str | None
    state: str
    engine: str | None


def settle(s: Session, job: str, outcome: Outcome) -> None:
    """What came of taking an endpoint up; one that was ended meanwhile stays so."""
    row = s.get_one(Job, job)
    if row.status != "starting":
        return
    row.status, row.reason = outcome.status, outcome.reason
    engine = {"engine": outcome.engine} if outcome.engine else {}
    if outcome.status == "failed":
        row.finished_at = now()
        _write(s, row, "ended")
    elif row.result.get("state") != "paused":
        _write(s, row, outcome.state, **engine)
    s.add(row)


def tell(s: Session, base: str, state: str, engine: str | None, reason: str | None) -> None:
    """A base's process has changed: every endpoint on it that is not paused says so."""
    for row in _active(s):
        if row.spec.get("base_model") != base or row.result.get("state") == "paused":
            continue
        if row.status == "running":
            row.reason = reason
        _write(s, row, state, **({"engine": engine} if engine else {}))


def disagreeing(store: Reader, states: Mapping[str, str]) -> bool:
    """Whether a row shows another state than its base's process has."""
    with store.read() as session:
        return bool(_differing(session, states))


def agree(s: Session, states: Mapping[str, str]) -> None:
    """Write the states of processes, by base, into the rows that show another one."""
    for row in _differing(s, states):
        _write(s, row, states[row.spec["base_model"]])


def _differing(s: Session, states: Mapping[str, str]) -> list[Job]:
    found = []
    for row in _active(s):
        shown = row.result.get("state")
        is_so = shown in ("paused", states.get(row.spec["base_model"], shown))
        if row.status == "running" and not is_so:
            found.append(row)
    return found


def needed(store: Reader) -> set[str]:
    """Base models with an endpoint that may be called."""
    with store.read() as session:
        rows = _active(session)
    return {row.spec["base_model"] for row in rows if row.result.get("state") != "paused"}


def read(store: Reader, job: str) -> Job:
    """An endpoint's row."""
    with store.read() as session:
        row = session.get(Job, job)
    if row is None or row.type != KIND:
        raise EndpointNotReady(f"there is no endpoint {job}")
    return row


def _active(s: Session) -> list[Job]:
    query = select(Job).where(Job.type == KIND, col(Job.status).in_(ACTIVE))
    return list(s.exec(query))


def _requests() -> Any:
    return (
        select(JobControl)
        .join(Job, col(Job.id) == col(JobControl.job))
        .where(JobControl.status == "requested", Job.type == KIND)
    )


def _write(s: Session, row: Job, state: str, **more: str) -> None:
    if row.result.get("state") != state or any(row.result.get(k) != v for k, v in more.items()):
        row.result = row.result | {"state": state, "since": now()} | more
    row.updated_at = now()
    s.add(row)
