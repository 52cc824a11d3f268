"""The device lease: every second on the device is paid for, however the work or a renewal ends."""

import time

import pytest
from sqlmodel import Session, select

from data import ledger
from data.store import Store
from data.tables import Account, Lease, Reservation, Run
from engine import lease
from engine.errors import CapReached, Interrupted
from engine.facts import read_facts
from tests.instance import LIBRARY, instance
from tests.waiting import eventually

DOLLAR_A_SECOND = 3_600_000_000


@pytest.fixture
def leased(tmp_path, monkeypatch):
    """A store with a run, its facts, and renewals every tenth of a second."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.1)
    with instance(tmp_path, micro_per_hour=DOLLAR_A_SECOND) as pawl:
        pawl.start("r", limits={"max_model_cost_usd": 1.0, "max_cost_usd": 80.0})
        with pawl.store.read() as session:
            run = session.get(Run, "r")
        facts = read_facts(run, LIBRARY, pawl.home)
        limits = {"max_cost_usd": 80.0}
        pawl.store.write(lambda s: ledger.open_account(s, "run:r", "prj_local", limits))
        pawl.store.write(lambda s: ledger.open_account(s, "project:prj_local", "prj_local"))
        yield pawl.store, facts


def account(store: Store) -> Account:
    with store.read() as session:
        return session.get_one(Account, "run:r")


def leave_no_room(session: Session) -> None:
    """The cap is what one slice costs: with any time paid for, the next one is beyond it."""
    ledger.set_caps(session, "run:r", {"max_cost_usd": 70.0})


def test_time_is_metered_and_paid_and_nothing_stays_reserved(leased):
    store, facts = leased
    started = time.monotonic()
    with lease.device_lease(store, facts, 1, "train", "cpu"):
        time.sleep(0.5)
    worked = time.monotonic() - started
    row = account(store)
    assert row.device_reserved == 0
    assert 0.45 <= row.device_ms / 1000 <= worked
    assert row.device_settled == pytest.approx(row.device_ms * 1000, rel=0.02)


def test_a_cap_without_room_for_the_first_slice_starts_nothing(leased):
    store, facts = leased
    store.write(lambda s: ledger.reserve(s, ["run:r"], "device", 40_000_000, project_id="p"))
    with (
        pytest.raises(CapReached, match=r"total cap \$80"),
        lease.device_lease(store, facts, 1, "train", "cpu"),
    ):
        raise AssertionError("the work began")


def test_a_refused_renewal_interrupts_the_work_and_names_the_cap(leased):
    store, facts = leased
    with (
        pytest.raises(CapReached, match="total cap"),
        lease.device_lease(store, facts, 1, "train", "cpu") as held,
    ):
        store.write(leave_no_room)
        eventually(lambda: held.refused)
        raise Interrupted("as the work does when it is told to stop")
    assert account(store).device_ms > 0


def test_work_that_was_finished_when_a_renewal_was_refused_counts(leased):
    store, facts = leased
    with lease.device_lease(store, facts, 1, "train", "cpu") as held:
        store.write(leave_no_room)
        eventually(lambda: held.refused)
    assert account(store).device_reserved == 0 and account(store).device_ms > 0


def test_a_renewal_that_breaks_stops_the_work_and_loses_no_time(leased, monkeypatch):
    store, facts = leased
    real = ledger.settle
    broken = iter([True])

    def settle(*args, **kwargs):
        if next(broken, False):
            raise OSError("no space left on device")
        return real(*args, **kwargs)

    monkeypatch.setattr(ledger, "settle", settle)
    with (
        pytest.raises(CapReached, match="no space left"),
        lease.device_lease(store, facts, 1, "train", "cpu") as held,
    ):
        eventually(lambda: held.refused)
        time.sleep(0.3)
        raise Interrupted("told to stop")
    assert account(store).device_ms >= 400 and account(store).device_reserved == 0


def test_the_lease_of_a_server_that_died_is_charged_whole(leased):
    store, facts = leased
    paid = lease._Paid(run=facts, worst=70_000_000)
    store.write(lambda s: lease._begin(s, paid, 1, "train", "cpu"))
    store.write(lease.end_leftovers)
    with store.read() as session:
        assert session.exec(select(Lease)).one().state == "ended"
        assert session.exec(select(Reservation)).one().state == "uncertain"
    assert account(store).device_settled == 70_000_000 and account(store).device_ms == 60_000
