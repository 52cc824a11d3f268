"""The device lease: who holds the device and why, paid for and metered in short slices."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlmodel import Session, select

from data import ledger
from data.store import Store
from data.tables import Lease, now
from engine.errors import CapReached
from engine.facts import RunFacts

SLICE_SECONDS = 60
MARGIN_SECONDS = 10  # how long ending the work may take once a renewal is refused
RENEW_SECONDS = 20


@dataclass(kw_only=True, slots=True)
class HeldLease:
    """A lease in force. `refused` says why it was not renewed; the work must then end."""

    id: int
    reservation: int
    since: float
    refused: str | None = None
    seconds: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)


@contextmanager
def device_lease(
    store: Store, run: RunFacts, round_: int, purpose: str, device: str, micro_per_hour: int
) -> Iterator[HeldLease]:
    """Hold the device for a phase; CapReached when a cap has no room for the next slice.

    Time is monotonic, so that a suspended machine is not billed.
    """
    worst = (SLICE_SECONDS + MARGIN_SECONDS) * micro_per_hour // 3600
    held = store.write(lambda s: _begin(s, run, round_, purpose, device, worst))
    renewer = threading.Thread(
        target=_renew_loop, args=(store, run, held, worst, micro_per_hour), daemon=True
    )
    renewer.start()
    try:
        yield held
    finally:
        held.done.set()
        renewer.join()
        store.write(lambda s: _end(s, run, held, micro_per_hour))
    if held.refused:
        raise CapReached(held.refused)


def end_leftovers(session: Session) -> None:
    """At start-up: leases of a server that died are over; their last slice is charged whole."""
    for lease in session.exec(select(Lease).where(Lease.state == "held")):
        lease.state, lease.ended_at = "ended", now()
        session.add(lease)
        if lease.reservation is not None:
            ledger.settle_uncertain(session, lease.reservation, "the server ended during the lease")


def _begin(
    s: Session, run: RunFacts, round_: int, purpose: str, device: str, worst: int
) -> HeldLease:
    reservation = _reserve(s, run, worst)
    lease = Lease(
        project_id=run.project_id,
        device=device,
        run=run.id,
        round=round_,
        purpose=purpose,
        reservation=reservation,
    )
    s.add(lease)
    s.flush()
    assert lease.id is not None
    return HeldLease(id=lease.id, reservation=reservation, since=time.monotonic())


def _reserve(s: Session, run: RunFacts, worst: int) -> int:
    try:
        return ledger.reserve(
            s, run.accounts, "device", worst, project_id=run.project_id, run=run.id
        )
    except ledger.CapExceeded as error:
        raise CapReached(str(error)) from None


def _renew_loop(
    store: Store, run: RunFacts, held: HeldLease, worst: int, micro_per_hour: int
) -> None:
    while not held.done.wait(RENEW_SECONDS):
        try:
            store.write(lambda s: _renew(s, run, held, worst, micro_per_hour))
        except CapReached as error:
            held.refused = str(error)
            return


def _renew(s: Session, run: RunFacts, held: HeldLease, worst: int, micro_per_hour: int) -> None:
    """Settle the slice that was used and reserve the next one, together or not at all."""
    lease = s.get_one(Lease, held.id)
    _settle_slice(s, run, held, lease, micro_per_hour)
    held_before = held.reservation
    held.reservation = _reserve(s, run, worst)
    assert held.reservation != held_before
    lease.reservation, lease.renewed_at = held.reservation, now()
    s.add(lease)


def _end(s: Session, run: RunFacts, held: HeldLease, micro_per_hour: int) -> None:
    lease = s.get_one(Lease, held.id)
    _settle_slice(s, run, held, lease, micro_per_hour)
    lease.state, lease.ended_at, lease.reservation = "ended", now(), None
    s.add(lease)


def _settle_slice(
    s: Session, run: RunFacts, held: HeldLease, lease: Lease, micro_per_hour: int
) -> None:
    moment = time.monotonic()
    elapsed = moment - held.since
    ledger.settle(s, held.reservation, -(-int(elapsed * 1000) * micro_per_hour // 3_600_000))
    ledger.add_device_time(s, run.accounts, int(elapsed * 1000))
    lease.active_ms += int(elapsed * 1000)
    held.since, held.seconds = moment, held.seconds + elapsed
