"""Guessing is slow: after five failures each try waits, for an account, for an address, for good."""

import asyncio

import pytest
from sqlmodel import Session, select

from app import throttle
from app.access import Access
from app.administration import LOCAL_OWNER
from app.throttle import FREE_FAILURES, Throttle
from data.home import Home
from data.store import Store
from data.tables import FailedSignIn
from tests.app.conftest import Clock
from tests.app.doors import browser, doors, sign_in_as

PASSWORD = "correct horse battery"
pytestmark = pytest.mark.usefixtures("clock")


def waits_after(failures: int, store: Store) -> list[int]:
    """The wait after each of so many failures, with time going on as long as each asks for."""
    found = []
    for number in range(1, failures + 1):
        assert Throttle(store).begin("account:ann") == 0
        asked_again = number >= FREE_FAILURES  # before that, asking would be one more free try
        found.append(round(Throttle(store).begin("account:ann")) if asked_again else 0)
        store.write(lambda session: pass_time(session, 60))
    return found


def pass_time(session: Session, seconds: int) -> None:
    session.connection().exec_driver_sql(
        "UPDATE failedsignin SET last_at = strftime('%Y-%m-%dT%H:%M:%fZ', last_at, ?)",
        (f"-{seconds} seconds",),
    )


def test_the_wait_doubles_and_ends(store: Store) -> None:
    assert waits_after(14, store) == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert Throttle(store).begin("account:bob") == 0


def test_the_wait_outlives_the_server(store: Store, home: Home) -> None:
    waits_after(7, store)
    assert Throttle(store).begin("account:ann") == 0  # the eighth failure
    store.close()
    again = Store(home.database)
    assert 4 < Throttle(again).begin("account:ann") <= 8
    again.close()


def test_failures_are_forgotten_after_a_quarter_of_an_hour(store: Store) -> None:
    for _ in range(5):
        Throttle(store).begin("account:ann")
    assert Throttle(store).begin("account:ann") > 0
    store.write(lambda session: pass_time(session, 901))
    assert Throttle(store).begin("account:ann") == 0
    with store.read() as session:
        assert session.exec(select(FailedSignIn.failures)).all() == [1]


def test_a_success_frees_the_account_and_not_the_address(store: Store) -> None:
    one = Throttle(store)
    for _ in range(4):
        one.begin("account:ann", "address:10.0.0.7")
    one.begin("account:bob", "address:10.0.0.7")
    one.succeeded("account:bob", "address:10.0.0.7")
    with store.read() as session:
        left = {row.subject: row.failures for row in session.exec(select(FailedSignIn))}
    assert left == {"account:ann": 4, "address:10.0.0.7": 4}


@pytest.mark.parametrize(
    ("host", "subject"),
    [
        ("10.0.0.7", "address:10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::/64"),
        ("testclient", "address:testclient"),
    ],
)
def test_an_address_is_what_one_person_may_own(host: str, subject: str) -> None:
    assert throttle.address(host) == subject


async def test_an_account_is_slow_to_guess_from_many_addresses(
    access: Access, clock: Clock
) -> None:
    access.people.add(LOCAL_OWNER, name="ann", role="developer", password=PASSWORD)
    guard = doors(access)
    for number in range(5):
        async with browser(guard, f"10.0.0.{number}") as client:
            assert (await sign_in_as(client, "ann", "wrong wrong wrong")).status_code == 401
    async with browser(guard, "10.0.0.99") as client:
        refused = await sign_in_as(client, "ann", PASSWORD)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert "one-time link" in refused.text
        clock.let_pass(1.05)
        assert (await sign_in_as(client, "ann", PASSWORD)).status_code == 303


async def test_an_address_is_slow_to_guess_many_accounts(access: Access) -> None:
    guard = doors(access)
    async with browser(guard, "10.0.0.7") as client:
        for number in range(5):
            assert (await sign_in_as(client, f"user{number}", "wrong" * 4)).status_code == 401
        assert (await sign_in_as(client, "user9", "wrong" * 4)).status_code == 429
    async with browser(guard, "10.0.0.8") as client:
        assert (await sign_in_as(client, "user9", "wrong" * 4)).status_code == 401


async def test_many_tries_at_once_gain_nothing(access: Access) -> None:
    access.people.add(LOCAL_OWNER, name="ann", role="developer", password=PASSWORD)
    async with browser(doors(access)) as client:
        tries = [sign_in_as(client, "ann", "wrong wrong wrong") for _ in range(12)]
        statuses = sorted([answer.status_code for answer in await asyncio.gather(*tries)])
    assert statuses == [401] * 5 + [429] * 7
