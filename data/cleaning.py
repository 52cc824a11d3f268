"""Carries a cleaning out: marks in the database first, then takes things off the disk."""

import logging
import os
import secrets
import shutil
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import delete
from sqlmodel import Session, col, select

from data.disk import give_up_spare, is_full
from data.files import fsync_folder
from data.home import Home
from data.inbox import Write
from data.lifecycle import ENDED
from data.retention import (
    EVENT_DAYS,
    Plan,
    is_old_event,
    last_event,
    needed_checkpoints,
    plan_cleaning,
    why_in_use,
)
from data.store import Reader, Store
from data.tables import Checkpoint, Event, Run, now

log = logging.getLogger(__name__)

EVENTS_AT_ONCE = 5000  # so that other writes do not wait for long


class CheckpointInUse(Exception):
    """A checkpoint may not be deleted; the text says what needs it."""


def clean(store: Store, home: Home, moment: datetime | None = None) -> Plan:
    """Remove what may go; what is in the plan's `going` is gone when this returns.

    A checkpoint's row is marked, never removed, and its folder goes only after the mark is
    committed. `moment` is the present time.
    """
    moment = moment or datetime.now(UTC)
    with store.read() as session:
        plan = plan_cleaning(session, home, moment)
    named = [item.name for item in plan.going if item.kind == "checkpoint"]
    loose = [item for item in plan.going if item.kind in ("training", "rows", "leftover")]
    for item in loose:  # first, since on a full disk nothing can be marked
        _remove(home.path / item.name)
    marked = set(_write(store, home, lambda s: _mark(s, named)))
    plan.going = [one for one in plan.going if one.kind != "checkpoint" or one.name in marked]
    for name in marked:
        _remove_checkpoint(store, home, name)
    for item in plan.going:
        if item.kind == "events":
            _remove_events(store, item.name, moment - timedelta(days=EVENT_DAYS))
        log.info("cleaned: %s %s, %s", item.kind, item.name, item.why)
    return plan


def delete_checkpoint(store: Reader, home: Home, name: str) -> None:
    """Delete one checkpoint at a person's word; CheckpointInUse when something still needs it."""

    def mark(s: Session) -> None:
        reason = why_in_use(s, name)
        if reason is not None:
            raise CheckpointInUse(reason)
        row = s.get_one(Checkpoint, name)
        row.deleted_at = row.deleted_at or now()
        s.add(row)

    _write(store, home, mark)
    if (home.checkpoints / name).is_dir():
        _remove_checkpoint(store, home, name)
    log.info("deleted checkpoint %s at a person's word", name)


def _write(store: Reader, home: Home, change: Write) -> Any:
    """Write; on a full disk with the room of the spare file, once."""
    try:
        return store.write(change)
    except Exception as error:
        if not is_full(error) or not give_up_spare(home.path):
            raise
        return store.write(change)


def _mark(s: Session, named: Collection[str]) -> list[str]:
    """Mark what is still not needed at this moment; the names of what may go."""
    needed = needed_checkpoints(s)
    rows = s.exec(select(Checkpoint).where(col(Checkpoint.id).in_(named))).all()
    going = [row for row in rows if row.deleted_at is not None or row.id not in needed]
    for row in going:
        row.deleted_at = row.deleted_at or now()
        s.add(row)
    return [row.id for row in going]


def _remove_checkpoint(store: Reader, home: Home, name: str) -> None:
    aside = home.checkpoints / f"{name}.tmp-{secrets.token_hex(4)}"
    if _write(store, home, lambda s: _set_aside(s, home, name, aside.name)):
        fsync_folder(home.checkpoints)
        _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _set_aside(s: Session, home: Home, name: str, aside: str) -> bool:
    """Give the folder a name that nobody reads, unless an equal training has brought it back."""
    if s.get_one(Checkpoint, name).deleted_at is None:
        return False
    os.rename(home.checkpoints / name, home.checkpoints / aside)
    return True


def _remove_events(store: Store, run: str, before: datetime) -> None:
    while store.write(lambda s: _drop_events(s, run, before)):
        pass


def _drop_events(s: Session, run: str, before: datetime) -> int:
    """Remove some of a run's old events; how many it were."""
    if s.get_one(Run, run).state not in ENDED:
        return 0
    last = last_event(s, run)
    some = select(Event.id).where(*is_old_event(run, before, last)).limit(EVENTS_AT_ONCE)
    ids = list(s.exec(some))
    s.execute(delete(Event).where(col(Event.id).in_(ids)))
    return len(ids)
