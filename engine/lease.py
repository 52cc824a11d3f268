"""The device lease: who holds the device and why, paid for and metered in short slices."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from sqlmodel import Session, select

from data import crash, ledger
from data.disk import is_full
from data.settings import setting
from data.store import Store
from data.tables import Lease, Reservation, now
from engine.disk import disk_full, write_surely
from engine.errors import CapReached, EngineError, Interrupted
from engine.facts import Facts

SLICE_SECONDS = 60
MARGIN_SECONDS = 10  # how long ending the work may take once a renewal is refused
RENEW_SECONDS = 20


@dataclass(kw_only=True, slots=True)
class HeldLease:
    """A lease in force. `refused` is why it was not renewed; the work must then end."""

    id: int
    reservation: int
    since: float  # monotonic: up to here time is settled
    refused: EngineError | None = None
    done: threading.Event = field(default_factory=threading.Event)


@contextmanager
def device_lease(
    store: Store, run: Facts, round_: int, purpose: str, device: str
) -> Iterator[HeldLease]:
    """Hold the device for a phase of a run or a job; CapReached when a cap has no room for a slice.

    What an hour costs is asked at the beginning, so that a phase has one price.

    A renewal that is refused, or fails, sets `refused`; work that was then interrupted comes out as
    CapReached, or DiskFull, and work that was finished all the same counts. Time is monotonic, so
    that a suspended machine is not billed; nor is a process that was stopped, beyond its slice.
    """
    with store.read() as session:
        micro_per_hour = hourly_rate(session)
    paid = _Paid(run=run, worst=_cost(SLICE_SECONDS + MARGIN_SECONDS, micro_per_hour))
    held = store.write(lambda s: _begin(s, paid, round_, purpose, device))
    crash.point("after_lease_begin")
    renewer = threading.Thread(
        target=_renew_loop, args=(store, paid, held, micro_per_hour), daemon=True
    )
    renewer.start()
    try:
        yield held
    except Interrupted:
        if held.refused is None:
            raise
        raise held.refused from None
    finally:
        held.done.set()
        renewer.join()
        crash.point("before_lease_end")
        write_surely(store, lambda s: _end(s, run, held, micro_per_hour))


def hourly_rate(session: Session) -> int:
    """What people set an hour of the device to cost, in micro-dollars; 0 until they do."""
    return round(float(setting(session, "device_usd_per_hour", "0")) * ledger.MICRO)


def end_leftovers(session: Session, run: str | None = None) -> None:
    """Leases that nobody ended, of one run or of all: their last slice is charged whole."""
    query = select(Lease).where(Lease.state == "held")
    for lease in session.exec(query if run is None else query.where(Lease.run == run)):
        lease.state, lease.ended_at = "ended", now()
        session.add(lease)
        if lease.reservation is not None:
            reservation = session.get_one(Reservation, lease.reservation)
            ledger.settle_uncertain(session, lease.reservation, "the lease was never ended")
            ledger.add_device_time(session, reservation.accounts, SLICE_SECONDS * 1000)
            lease.active_ms += SLICE_SECONDS * 1000


@dataclass(kw_only=True, slots=True, frozen=True)
class _Paid:
    """Whose lease it is, and what one slice of it costs at most."""

    run: Facts
    worst: int


def _begin(s: Session, paid: _Paid, round_: int, purpose: str, device: str) -> HeldLease:
    reservation = _reserve(s, paid)
    lease = Lease(
        project_id=paid.run.project_id,
        device=device,
        run=paid.run.owner["run"],
        job=paid.run.owner["job"],
        round=round_,
        purpose=purpose,
        reservation=reservation,
    )
    s.add(lease)
    s.flush()
    assert lease.id is not None
    crash.point("in_lease_begin")
    return HeldLease(id=lease.id, reservation=reservation, since=time.monotonic())


def _reserve(s: Session, paid: _Paid) -> int:
    run = paid.run
    try:
        return ledger.reserve(
            s,
            run.accounts,
            "device",
            paid.worst,
            project_id=run.project_id,
            run=run.owner["run"],
        )
    except ledger.CapExceeded as error:
        raise CapReached(str(error)) from None


def _renew_loop(store: Store, paid: _Paid, held: HeldLease, micro_per_hour: int) -> None:
    """Renew until done; whatever stops a renewal must stop the work, or time would go unpaid."""
    while not held.done.wait(RENEW_SECONDS):
        moment = time.monotonic()
        try:
            held.reservation = store.write(partial(_renew, paid, held, moment, micro_per_hour))
            held.since = moment
            crash.point("after_lease_renew")
        except Exception as error:  # noqa: BLE001  told to the run as its reason
            folder = store.path.parent
            held.refused = disk_full(folder) if is_full(error) else CapReached(str(error))
            return


def _renew(paid: _Paid, held: HeldLease, moment: float, micro_per_hour: int, s: Session) -> int:
    """Settle the slice that was used and reserve the next one, together or not at all."""
    lease = s.get_one(Lease, held.id)
    _settle_slice(s, paid.run, held, lease, moment, micro_per_hour)
    lease.reservation, lease.renewed_at = _reserve(s, paid), now()
    s.add(lease)
    crash.point("in_lease_renew")
    return lease.reservation


def _end(s: Session, run: Facts, held: HeldLease, micro_per_hour: int) -> None:
    lease = s.get_one(Lease, held.id)
    if lease.state != "held":  # a server that stops does not wait for ever
        return
    _settle_slice(s, run, held, lease, time.monotonic(), micro_per_hour)
    lease.state, lease.ended_at, lease.reservation = "ended", now(), None
    s.add(lease)
    crash.point("in_lease_end")


def _settle_slice(
    s: Session, run: Facts, held: HeldLease, lease: Lease, moment: float, micro_per_hour: int
) -> None:
    elapsed = min(moment - held.since, SLICE_SECONDS + MARGIN_SECONDS)  # what is reserved
    ledger.settle(s, held.reservation, _cost(elapsed, micro_per_hour))
    ledger.add_device_time(s, run.accounts, int(elapsed * 1000))
    lease.active_ms += int(elapsed * 1000)


def _cost(seconds: float, micro_per_hour: int) -> int:
    """Micro-dollars for a time on the device, rounded up."""
    return -(-int(seconds * 1000) * micro_per_hour // 3_600_000)
