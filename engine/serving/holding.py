"""Device time of processes that serve: a lease from their start to their end, metered at the end."""

import time
from dataclasses import dataclass

from sqlmodel import Session

from data import ledger
from data.store import Store
from data.tables import Job, Lease, now


@dataclass(kw_only=True, slots=True, frozen=True)
class Holding:
    """A lease in force; `since` is monotonic."""

    id: int
    since: float


def begin_serving(store: Store, job: str, device: str) -> Holding:
    """Note that a process holds the device from now on, for the job whose call woke it."""

    def change(s: Session) -> int:
        row = s.get_one(Job, job)
        lease = Lease(
            project_id=row.project_id,
            device=device,
            job=job,
            purpose=f"serving {row.spec['version']}",
        )
        s.add(lease)
        s.flush()
        assert lease.id is not None
        return lease.id

    return Holding(id=store.write(change), since=time.monotonic())


def end_serving(store: Store, held: Holding) -> None:
    """Note that it does no more; its time counts for the project."""
    milliseconds = int((time.monotonic() - held.since) * 1000)

    def change(s: Session) -> None:
        lease = s.get_one(Lease, held.id)
        if lease.state != "held":
            return
        lease.state, lease.ended_at, lease.active_ms = "ended", now(), milliseconds
        account = ledger.open_account(s, f"project:{lease.project_id}", lease.project_id)
        ledger.add_device_time(s, [account.id], milliseconds)
        s.add(lease)

    store.write(change)
