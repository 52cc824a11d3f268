"""The ledger: caps hold before money is spent, and every micro-dollar is settled once."""

import threading

import pytest
from sqlmodel import select

from data import ledger
from data.ledger import AlreadySettled, CapExceeded
from data.store import Store
from data.tables import Account, LedgerEntry, Project

ACCOUNTS = ["run:a", "project:p"]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "pawl.db")

    def begin(s):
        s.add(Project(id="p", workspace_id="w", name="P"))
        s.flush()
        limits = {"max_model_cost_usd": 0.001, "max_cost_usd": 0.0015, "max_model_requests": 5}
        ledger.open_account(s, "run:a", "p", limits)
        ledger.open_account(s, "project:p", "p")

    store.write(begin)
    yield store
    store.close()


def reserve(store: Store, amount: int, kind: str = "model", requests: int = 0) -> int:
    return store.write(
        lambda s: ledger.reserve(
            s, ACCOUNTS, kind, amount, project_id="p", run="a", requests=requests
        )
    )


def account(store: Store, name: str = "run:a") -> Account:
    with store.read() as s:
        return s.get_one(Account, name)


def test_a_reservation_counts_against_the_cap_until_it_is_settled(store):
    first = reserve(store, 700)
    with pytest.raises(CapExceeded, match=r"model cap \$0\.001 reached"):
        reserve(store, 400)
    store.write(lambda s: ledger.settle(s, first, 100))
    reserve(store, 400)
    assert (account(store).model_settled, account(store).model_reserved) == (100, 400)


def test_a_refused_reservation_changes_no_account(store):
    with pytest.raises(CapExceeded):
        reserve(store, 2000)
    for name in ACCOUNTS:
        assert account(store, name).model_reserved == 0


def test_every_account_is_charged_and_entries_add_up_to_the_totals(store):
    one = reserve(store, 300)
    store.write(lambda s: ledger.settle(s, one, 250))
    with store.read() as s:
        for name in ACCOUNTS:
            query = select(LedgerEntry).where(LedgerEntry.account == name)
            settled = [e.amount for e in s.exec(query) if e.kind == "settle"]
            assert settled == [250] and s.get_one(Account, name).model_settled == 250


def test_an_unknown_outcome_costs_the_whole_reservation_and_is_marked(store):
    one = reserve(store, 300)
    store.write(lambda s: ledger.settle_uncertain(s, one, "the connection broke"))
    assert (account(store).model_settled, account(store).model_uncertain) == (300, 300)


def test_a_reservation_is_settled_once(store):
    one = reserve(store, 300)
    store.write(lambda s: ledger.release(s, one, "refused before it was sent"))
    with pytest.raises(AlreadySettled):
        store.write(lambda s: ledger.settle(s, one, 10))
    assert account(store).model_settled == 0


def test_the_total_cap_covers_model_and_device_together(store):
    reserve(store, 900)
    with pytest.raises(CapExceeded, match="total cap"):
        reserve(store, 700, kind="device")


def test_the_request_cap_is_exact(store):
    for _ in range(5):
        reserve(store, 1, requests=1)
    with pytest.raises(CapExceeded, match="request cap 5 reached"):
        reserve(store, 1, requests=1)


def test_a_request_cap_below_what_was_asked_holds_up_nothing_but_requests(store):
    reserve(store, 1, requests=3)
    store.write(lambda s: ledger.set_caps(s, "project:p", {"max_model_requests": 2}))
    reserve(store, 1, kind="device")
    with pytest.raises(CapExceeded, match="request cap 2 reached"):
        reserve(store, 1, requests=1)


def test_sixty_four_at_once_admit_only_what_fits(store):
    admitted: list[int] = []

    def attempt() -> None:
        try:
            admitted.append(reserve(store, 100))
        except CapExceeded:
            pass

    threads = [threading.Thread(target=attempt) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 10 and account(store).model_reserved == 1000
