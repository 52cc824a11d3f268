"""API keys: shown once, found by hash, bounded by role and time, revoked for good."""

import re
import sqlite3
from datetime import timedelta

import pytest
from sqlmodel import Session

from app.access import Access
from app.administration import LOCAL_OWNER
from app.caller import ROLES, Caller
from app.errors import AccessDenied, Conflict, InvalidRequest, NotFound
from app.tokens import digest, from_now
from data.home import Home
from data.store import Store
from data.tables import ApiKey, Project

KEY_TEXT = re.compile(r"pawl_[0-9a-f]{8}_[A-Za-z0-9_-]{43}")


def caller(role: str) -> Caller:
    return Caller(
        actor=role,
        workspace_id="ws_local",
        project_id="prj_local",
        capabilities=ROLES[role],
        user_id=f"usr_{role}",
    )


def test_a_developer_key_may_do_all_but_administer(access: Access) -> None:
    info, text = access.keys.create(LOCAL_OWNER, name="automation", role="developer")
    assert KEY_TEXT.fullmatch(text)
    assert (info.preset, info.state, info.made_by) == ("Project automation", "active", "owner")
    found = access.caller_of_key(text)
    assert found is not None
    assert (found.actor, found.project_id) == ("key:automation", "prj_local")
    assert found.capabilities == ROLES["developer"]
    assert "admin" not in found.capabilities


def test_a_viewer_key_only_reads(access: Access) -> None:
    _, text = access.keys.create(LOCAL_OWNER, name="dashboard", role="viewer")
    found = access.caller_of_key(text)
    assert found is not None and found.capabilities == {"read"}


@pytest.mark.parametrize("role", ["admin", "owner", ""])
def test_no_key_administers(access: Access, role: str) -> None:
    with pytest.raises(InvalidRequest, match="keys never administer"):
        access.keys.create(LOCAL_OWNER, name="root", role=role)


def test_even_a_row_that_says_admin_does_not_administer(access: Access, store: Store) -> None:
    _, text = access.keys.create(LOCAL_OWNER, name="k", role="developer")

    def change(session: Session) -> None:
        row = session.get_one(ApiKey, text.split("_")[1])
        row.capabilities = [*row.capabilities, "admin"]
        session.add(row)

    store.write(change)
    found = access.caller_of_key(text)
    assert found is not None and "admin" not in found.capabilities


def test_the_text_of_a_key_is_stored_nowhere(access: Access, store: Store, home: Home) -> None:
    _, text = access.keys.create(LOCAL_OWNER, name="automation", role="developer")
    store.close()
    dump = "\n".join(sqlite3.connect(home.database).iterdump())
    assert text not in dump
    assert digest(text) in dump


def test_a_revoked_key_is_unknown_at_once_and_stays_so(access: Access) -> None:
    info, text = access.keys.create(LOCAL_OWNER, name="automation", role="developer")
    assert access.keys.revoke(LOCAL_OWNER, info.id).state == "revoked"
    assert access.caller_of_key(text) is None
    first = access.keys.revoke(LOCAL_OWNER, info.id)
    assert access.keys.revoke(LOCAL_OWNER, info.id) == first


def test_a_key_ends_by_itself(access: Access, store: Store) -> None:
    info, text = access.keys.create(LOCAL_OWNER, name="brief", role="viewer", days=1)
    assert info.expires_at is not None
    assert from_now(timedelta(hours=23)) < info.expires_at <= from_now(timedelta(days=1))
    assert access.caller_of_key(text) is not None

    def a_day_later(session: Session) -> None:
        row = session.get_one(ApiKey, info.id)
        row.expires_at = from_now(timedelta(milliseconds=-1))
        session.add(row)

    store.write(a_day_later)
    assert access.caller_of_key(text) is None
    states = {key.name: key.state for key in access.keys.visible(LOCAL_OWNER)}
    assert states["brief"] == "expired"


@pytest.mark.parametrize("days", [0, -1, 1e9, float("nan")])
def test_an_impossible_life_is_refused(access: Access, days: float) -> None:
    with pytest.raises(InvalidRequest, match="expires"):
        access.keys.create(LOCAL_OWNER, name="k", role="viewer", days=days)


def test_names_are_unique_among_keys_in_use(access: Access) -> None:
    info, _ = access.keys.create(LOCAL_OWNER, name="automation", role="developer")
    with pytest.raises(Conflict, match="automation is in use"):
        access.keys.create(LOCAL_OWNER, name="automation", role="viewer")
    access.keys.revoke(LOCAL_OWNER, info.id)
    access.keys.create(LOCAL_OWNER, name="automation", role="viewer")


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "x" * 65, "<b>", "a:b"])
def test_odd_names_are_refused(access: Access, name: str) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        access.keys.create(LOCAL_OWNER, name=name, role="viewer")


def test_a_key_belongs_to_one_project(access: Access, store: Store) -> None:
    store.write(lambda db: db.add(Project(id="prj_two", workspace_id="ws_local", name="Second")))
    _, text = access.keys.create(LOCAL_OWNER, name="two", role="viewer", project="Second")
    found = access.caller_of_key(text)
    assert found is not None and found.project_id == "prj_two"
    with pytest.raises(InvalidRequest, match="there are prj_local, prj_two"):
        access.keys.create(LOCAL_OWNER, name="three", role="viewer", project="prj_none")


@pytest.mark.parametrize("role", ["viewer", "developer"])
def test_only_an_administrator_keeps_keys(access: Access, role: str) -> None:
    info, text = access.keys.create(LOCAL_OWNER, name="automation", role="developer")
    with pytest.raises(AccessDenied):
        access.keys.create(caller(role), name="mine", role="viewer")
    assert access.keys.visible(caller(role)) == []
    with pytest.raises(NotFound):
        access.keys.revoke(caller(role), info.id)
    assert access.caller_of_key(text) is not None


def test_the_owners_key_is_not_revoked_but_replaced(access: Access) -> None:
    with pytest.raises(Conflict, match=r"deleting owner\.key"):
        access.keys.revoke(LOCAL_OWNER, "owner")


def test_use_is_noted(access: Access, store: Store) -> None:
    info, text = access.keys.create(LOCAL_OWNER, name="automation", role="developer")
    assert info.last_used_at is None
    access.caller_of_key(text)
    store.write(lambda session: None)  # the note was posted before it
    (used,) = [key for key in access.keys.visible(LOCAL_OWNER) if key.id == info.id]
    assert used.last_used_at is not None
