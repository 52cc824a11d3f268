"""What a home may part with: which checkpoints, leftovers and old events go, and why others stay."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import ColumnElement, func
from sqlmodel import Session, col, select

from data.files import is_locked
from data.home import Home
from data.job_places import ROWS, jobs_folder
from data.lifecycle import ENDED
from data.sizes import size_of
from data.tables import Checkpoint, Event, Job, Round, Run, Version

LAST = 2  # checkpoints of a run that stay beside its best
EVENT_DAYS = 30
ROWS_DAYS = 30
JOB_ENDED = ("completed", "failed", "cancelled")
EVENTS_KEPT = ("round", "error")  # kinds that stay however old they are
LEFTOVER_HOURS = 1  # an interrupted write is surely none under way by then
ADDING = "models/.downloads/adding-*"  # a base model on its way in, with a lock file beside it
CHECKPOINT = re.compile("[0-9a-f]{16}")
PLACES = (".", "models", "checkpoints", "recipes", "backups", "runs/*", "runs/*/train-*", "jobs/*")


@dataclass(kw_only=True, slots=True, frozen=True)
class Item:
    """Something of a home: `size` is in bytes, of events their number; `why` it goes or stays."""

    kind: str  # checkpoint | training | rows | leftover | events
    name: str
    run: str | None
    size: int
    why: str


@dataclass(kw_only=True, slots=True)
class Plan:
    """What goes and what stays."""

    going: list[Item] = field(default_factory=list)
    staying: list[Item] = field(default_factory=list)


def plan_cleaning(session: Session, home: Home, moment: datetime) -> Plan:
    """What a cleaning would do at a moment."""
    plan = Plan()
    reasons = needed_checkpoints(session)
    for row in session.exec(select(Checkpoint).order_by(col(Checkpoint.created_at))):
        _sort_in(plan, home, row, reasons.get(row.id))
    plan.staying += _unnamed(session, home)
    plan.going += _spent_training(session, home)
    plan.going += _spent_rows(session, home, moment - timedelta(days=ROWS_DAYS))
    plan.going += _leftovers(home, moment - timedelta(hours=LEFTOVER_HOURS))
    plan.going += _old_events(session, moment - timedelta(days=EVENT_DAYS))
    return plan


def needed_checkpoints(session: Session) -> dict[str, str]:
    """Checkpoints that stay, each with its reason. Equal trainings share one: any run may need it."""
    needed: dict[str, str] = {}
    for run in session.exec(select(Run)):
        newest = list(dict.fromkeys(reversed(_adapters(session, run).values())))[:LAST]
        needed |= dict.fromkeys(newest, f"one of the last {LAST} of {run.id}")
    unbound = select(Version).where(col(Version.run).is_(None), col(Version.adapter).is_not(None))
    for version in session.exec(unbound):
        needed[version.adapter or ""] = f"is version {version.name}, which belongs to no run"
    for run in session.exec(select(Run)):
        needed |= _used_by(session, run)
    return needed | deployed(session)


def deployed(session: Session) -> dict[str, str]:
    """Checkpoints that an endpoint answers with, each with that as its reason."""
    query = select(Job).where(Job.type == "inference", col(Job.status).not_in(JOB_ENDED))
    jobs = {job.spec.get("adapter"): job.id for job in session.exec(query)}
    return {adapter: f"is deployed, by job {job}" for adapter, job in jobs.items() if adapter}


def why_in_use(session: Session, checkpoint: str) -> str | None:
    """Why a checkpoint may not be deleted at present, even at a person's word; None when it may."""
    in_use = deployed(session) | _at_work(session)
    if checkpoint in in_use:
        return in_use[checkpoint]
    holders = select(Version.run).where(Version.adapter == checkpoint)
    for run in session.exec(select(Run).where(col(Run.id).in_(holders))):
        reason = _used_by(session, run).get(checkpoint)
        if reason is not None:
            return reason
    return None


def _at_work(session: Session) -> dict[str, str]:
    """Checkpoints of trainings by hand that go on to measure them, each with that as its reason."""
    query = select(Job).where(
        Job.type == "train", col(Job.run).is_(None), col(Job.status).not_in(JOB_ENDED)
    )
    jobs = {job.result.get("checkpoint"): job.id for job in session.exec(query)}
    return {
        made: f"job {job} still works with it: stop that first"
        for made, job in jobs.items()
        if made
    }


def _adapters(session: Session, run: Run) -> dict[str, str]:
    """The checkpoints of a run's versions by their names, oldest first."""
    query = select(Version).where(Version.run == run.id, col(Version.adapter).is_not(None))
    return {v.name: v.adapter or "" for v in session.exec(query.order_by(col(Version.id)))}


def _used_by(session: Session, run: Run) -> dict[str, str]:
    adapters, needed = _adapters(session, run), {}
    if run.state not in ENDED:
        rounds = select(Round).where(Round.run == run.id, col(Round.outcome).is_(None))
        for row in session.exec(rounds):
            for name in (row.start_version, row.candidate):
                if name in adapters:
                    needed[adapters[name]] = f"round {row.number} of {run.id} needs it"
    if run.best_version in adapters:
        needed[adapters[run.best_version]] = f"the best of {run.id}"
    return needed


def _sort_in(plan: Plan, home: Home, row: Checkpoint, reason: str | None) -> None:
    folder = home.checkpoints / row.id
    if not folder.is_dir():
        return  # gone already, or on a disk that is not there now
    if row.run is None and reason is None:
        reason = "was trained by hand"
    if row.deleted_at is not None:
        reason, why = None, "its removal was cut off"
    else:
        why = f"neither the best nor one of the last {LAST}"
    item = Item(
        kind="checkpoint",
        name=row.id,
        run=row.run,
        size=size_of(folder),
        why=reason or why,
    )
    (plan.staying if reason else plan.going).append(item)


def _spent_training(session: Session, home: Home) -> Iterator[Item]:
    """What trainings that are over would have been resumed from."""
    for folder in sorted(home.path.glob("runs/*/train-[0-9]*")):
        run = session.get(Run, folder.parent.name)
        number = folder.name.removeprefix("train-")
        if run is None or not number.isdigit():
            continue
        query = select(Round).where(Round.run == run.id, Round.number == int(number))
        row = session.exec(query).first()
        if run.state in ENDED or (row is not None and row.outcome is not None):
            yield _on_disk("training", home, folder, "its round is over", run.id)


def _spent_rows(session: Session, home: Home, before: datetime) -> Iterator[Item]:
    """What trainings by hand that are long over were trained on."""
    for file in sorted(jobs_folder(home).glob(f"*/{ROWS}")):
        job = session.get(Job, file.parent.name)
        if job is None or job.status not in JOB_ENDED or job.finished_at is None:
            continue
        if job.finished_at < _told(before):
            why = f"of a training that ended more than {ROWS_DAYS} days ago"
            yield _on_disk("rows", home, file, why)


def _leftovers(home: Home, before: datetime) -> Iterator[Item]:
    """Interrupted writes that nothing has touched lately; `.tmp-` is in the names of most."""
    for place in PLACES:
        for path in sorted(home.path.glob(f"{place}/*.tmp-*")):
            if _touched(path) < before.timestamp():
                yield _on_disk("leftover", home, path, "an interrupted write")
    for path in sorted(home.path.glob(ADDING)):
        busy = is_locked(path.with_name(f"{path.name}.lock"))
        if path.is_dir() and not busy and _touched(path) < before.timestamp():
            yield _on_disk("leftover", home, path, "an interrupted add-base")


def _unnamed(session: Session, home: Home) -> Iterator[Item]:
    """Checkpoints of which the tables know nothing; after a restore they may be somebody's work."""
    known = set(session.exec(select(Checkpoint.id)))
    for folder in sorted(home.checkpoints.glob("*")):
        if CHECKPOINT.fullmatch(folder.name) and folder.name not in known:
            why = "nothing here names it: delete its folder if you do not need it"
            yield Item(kind="checkpoint", name=folder.name, run=None, size=size_of(folder), why=why)


def _on_disk(kind: str, home: Home, path: Path, why: str, run: str | None = None) -> Item:
    name = path.relative_to(home.path).as_posix()
    return Item(kind=kind, name=name, run=run, size=size_of(path), why=why)


def _touched(path: Path) -> float:
    """When anything in it was last written; for ever later when it is being finished just now."""
    try:
        return max(one.lstat().st_mtime for one in [path, *path.rglob("*")])
    except FileNotFoundError:
        return math.inf


def _old_events(session: Session, before: datetime) -> Iterator[Item]:
    why = f"of an ended run, older than {EVENT_DAYS} days, of no round and no error"
    for run in session.exec(select(Run).where(col(Run.state).in_(ENDED))):
        last = last_event(session, run.id)
        query = select(func.count()).where(*is_old_event(run.id, before, last))
        if count := session.exec(query).one():
            yield Item(kind="events", name=run.id, run=run.id, size=count, why=why)


def last_event(session: Session, run: str) -> int:
    """The number of a run's newest event. It stays, so that numbers go on where they were."""
    return session.exec(select(func.max(Event.seq)).where(Event.run == run)).one() or 0


def is_old_event(run: str, before: datetime, last: int) -> tuple[ColumnElement[bool], ...]:
    """The conditions under which an event of an ended run goes."""
    return (
        col(Event.run) == run,
        col(Event.at) < _told(before),
        col(Event.kind).not_in(EVENTS_KEPT),
        col(Event.seq) < last,
    )


def _told(moment: datetime) -> str:
    """A moment as rows tell it, so that the two can be compared."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
