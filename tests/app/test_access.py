"""Who comes in: the owner's key file, one-time links, sessions, keys; tokens are never stored."""

import sqlite3
import stat

import pytest

from app.access import Access
from app.caller import ROLES
from app.tokens import digest, new_key
from data.home import Home
from data.store import Store
from data.tables import ApiKey, SignIn

BASE = "http://127.0.0.1:8710"


def token_of(link: str) -> str:
    return link.partition("?link=")[2]


def expire(store: Store) -> None:
    """Let every sign-in row be one second past its time."""

    def change(session: object) -> None:
        session.connection().exec_driver_sql(  # type: ignore[attr-defined]
            "UPDATE signin SET expires_at = '2000-01-01T00:00:00.000Z'"
        )

    store.write(change)


def test_the_owner_key_is_written_for_its_owner_alone(access: Access, home: Home) -> None:
    assert stat.S_IMODE(home.owner_key.stat().st_mode) == 0o600
    assert home.owner_key.read_text().startswith("pawl_owner_")


def test_a_second_start_keeps_the_key(access: Access, store: Store, home: Home) -> None:
    key = home.owner_key.read_text()
    Access(store, home).ensure_owner()
    assert home.owner_key.read_text() == key
    assert access.open_session(key.strip()) is not None


def test_a_key_file_that_everyone_could_read_is_closed_again(access: Access, home: Home) -> None:
    home.owner_key.chmod(0o644)
    access.ensure_owner()
    assert stat.S_IMODE(home.owner_key.stat().st_mode) == 0o600


def test_a_lost_key_file_gets_a_new_key_and_the_old_one_is_worth_nothing(
    access: Access, home: Home
) -> None:
    old = home.owner_key.read_text().strip()
    home.owner_key.unlink()
    access.ensure_owner()
    assert access.open_session(old) is None
    assert access.open_session(home.owner_key.read_text().strip()) is not None


def test_an_empty_key_file_left_by_a_crash_is_replaced(access: Access, home: Home) -> None:
    home.owner_key.write_text("")
    access.ensure_owner()
    assert home.owner_key.read_text().startswith("pawl_owner_")


def test_a_link_signs_the_owner_in_once(access: Access) -> None:
    link = access.sign_in_link(BASE)
    assert link.startswith(f"{BASE}/sign-in?link=")
    session = access.open_session(token_of(link))
    assert session is not None
    caller = access.caller_of_session(session)
    assert caller is not None
    assert (caller.actor, caller.capabilities) == ("owner", ROLES["admin"])
    assert access.open_session(token_of(link)) is None


def test_an_expired_link_is_refused(access: Access, store: Store) -> None:
    link = access.sign_in_link(BASE)
    expire(store)
    assert access.open_session(token_of(link)) is None


def test_a_session_ends_by_sign_out(access: Access) -> None:
    session = access.open_session(token_of(access.sign_in_link(BASE)))
    assert session is not None
    access.end_session(session)
    assert access.caller_of_session(session) is None


def test_a_session_ends_when_nobody_used_it_for_its_idle_time(access: Access, store: Store) -> None:
    session = access.open_session(token_of(access.sign_in_link(BASE)))
    assert session is not None
    expire(store)
    assert access.caller_of_session(session) is None


def test_using_a_session_starts_its_idle_time_again(access: Access, store: Store) -> None:
    session = access.open_session(token_of(access.sign_in_link(BASE)))
    assert session is not None

    def almost_over(db: object) -> None:
        db.connection().exec_driver_sql(  # type: ignore[attr-defined]
            "UPDATE signin SET expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 minute')"
        )

    def expiry() -> str:
        with store.read() as db:
            return db.get_one(SignIn, digest(session)).expires_at

    store.write(almost_over)
    before = expiry()
    assert access.caller_of_session(session, extend=False) is not None
    store.write(lambda db: None)
    assert expiry() == before
    assert access.caller_of_session(session) is not None
    store.write(lambda db: None)  # the extension was posted before it
    assert expiry() > before


def test_a_session_token_is_no_link_and_a_link_no_session(access: Access) -> None:
    link = token_of(access.sign_in_link(BASE))
    assert access.caller_of_session(link) is None
    session = access.open_session(link)
    assert session is not None
    assert access.open_session(session) is None


def test_the_owner_key_as_bearer_may_do_everything_but_administer(
    access: Access, home: Home
) -> None:
    caller = access.caller_of_key(home.owner_key.read_text().strip())
    assert caller is not None
    assert caller.actor == "owner"
    assert caller.capabilities == ROLES["developer"]


def test_a_project_key_has_its_own_name_and_never_administers(access: Access, store: Store) -> None:
    key = new_key("k1")
    row = ApiKey(id="k1", project_id="prj_local", name="automation", key_hash=digest(key))
    row.capabilities = ["read", "training.run", "admin"]
    store.write(lambda session: session.add(row))
    caller = access.caller_of_key(key)
    assert caller is not None
    assert caller.actor == "key:automation"
    assert caller.capabilities == {"read", "training.run"}
    assert access.open_session(key) is None  # a key is not a person


@pytest.mark.parametrize("field", ["revoked_at", "expires_at"])
def test_a_revoked_or_expired_key_is_unknown(access: Access, store: Store, field: str) -> None:
    key = new_key("k1")
    row = ApiKey(id="k1", project_id="prj_local", name="old", key_hash=digest(key))
    row.capabilities = ["read"]
    setattr(row, field, "2000-01-01T00:00:00.000Z")
    store.write(lambda session: session.add(row))
    assert access.caller_of_key(key) is None


def test_no_token_is_stored_anywhere_in_the_database(
    access: Access, store: Store, home: Home
) -> None:
    link = token_of(access.sign_in_link(BASE))
    session = access.open_session(link)
    assert session is not None
    store.close()
    key = home.owner_key.read_text().strip()
    dump = "\n".join(sqlite3.connect(home.database).iterdump())
    for secret in (link, session, key):
        assert secret not in dump
        assert digest(secret) in dump


@pytest.mark.parametrize("junk", ["", "pawl_owner_", "x" * 5000, "ünïcode", "' OR 1=1 --"])
def test_junk_opens_nothing(access: Access, junk: str) -> None:
    assert access.open_session(junk) is None
    assert access.caller_of_session(junk) is None
    assert access.caller_of_key(junk) is None
