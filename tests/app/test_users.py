"""People: roles, passwords that are hard to guess and slow to check, sign-ins that end in time."""

import time

import pytest
from sqlmodel import select

from app.access import Access
from app.administration import LOCAL_OWNER
from app.caller import ROLES, Caller
from app.errors import AccessDenied, Conflict, InvalidRequest, NotFound
from app.passwords import hash_password, is_right
from data.store import Store
from data.tables import User
from tests.app.doors import OWN, browser, doors, sign_in_as

PASSWORD = "correct horse battery"
OTHER = "staple of the horses"


def signed_in(access: Access, name: str, password: str = PASSWORD) -> tuple[str, Caller]:
    token = access.open_session_by_password(name, password)
    assert token is not None
    caller = access.caller_of_session(token)
    assert caller is not None
    return token, caller


@pytest.fixture
def ann(access: Access) -> Access:
    """The doors, with Ann as a developer."""
    access.people.add(LOCAL_OWNER, name="ann", role="developer", password=PASSWORD)
    return access


@pytest.mark.parametrize("role", ["viewer", "developer", "admin"])
def test_a_person_signs_in_with_the_role_given(access: Access, role: str) -> None:
    access.people.add(LOCAL_OWNER, name="ann", role=role, password=PASSWORD)
    _, caller = signed_in(access, "ann")
    assert (caller.actor, caller.capabilities) == ("ann", ROLES[role])


def test_a_wrong_password_opens_nothing(ann: Access) -> None:
    assert ann.open_session_by_password("ann", OTHER) is None
    assert ann.open_session_by_password("nobody", PASSWORD) is None
    assert ann.open_session_by_password("owner", "") is None  # the owner has no password yet


def test_an_unknown_name_takes_as_long_as_a_wrong_password(ann: Access) -> None:
    """By the processor's time, since a busy machine lets one of them wait for longer."""

    def seconds(name: str) -> float:
        began = time.thread_time()
        ann.people.password_is_right(name, OTHER)
        return time.thread_time() - began

    spans = [(seconds("ann"), seconds("nobody")) for _ in range(5)]
    wrong, unknown = (min(each) for each in zip(*spans, strict=True))
    assert 0.5 < unknown / wrong < 2
    assert wrong > 0.02  # a guess costs something


def test_passwords_are_salted_and_only_their_hash_is_kept(ann: Access, store: Store) -> None:
    with store.read() as session:
        stored = session.exec(select(User.password_hash).where(User.name == "ann")).one()
    assert stored is not None
    assert stored.startswith("scrypt$15$8$3$") and PASSWORD not in stored
    assert hash_password(PASSWORD) != hash_password(PASSWORD)
    assert is_right("pässwörter sind", hash_password("pa\u0308sswo\u0308rter sind"))


@pytest.mark.parametrize(
    "password", ["", "short", "a" * 40, "ab" * 20, "x" * 257, "ann", "ann-password"]
)
def test_passwords_that_are_easy_to_guess_are_refused(access: Access, password: str) -> None:
    with pytest.raises(InvalidRequest, match="password"):
        access.people.add(LOCAL_OWNER, name="ann", role="viewer", password=password)


@pytest.mark.parametrize("name", ["", "Ann", "a b", "key:x", "x" * 65, "-a", "a\n"])
def test_odd_names_are_refused(access: Access, name: str) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        access.people.add(LOCAL_OWNER, name=name, role="viewer", password=PASSWORD)


def test_names_are_unique(ann: Access) -> None:
    with pytest.raises(Conflict, match="ann already"):
        ann.people.add(LOCAL_OWNER, name="ann", role="viewer", password=PASSWORD)


def test_a_removed_person_is_out_at_once_with_what_was_theirs(ann: Access) -> None:
    token, _ = signed_in(ann, "ann")
    ann.people.remove(LOCAL_OWNER, "ann")
    assert ann.caller_of_session(token) is None
    assert ann.open_session_by_password("ann", PASSWORD) is None
    with pytest.raises(NotFound):
        ann.people.remove(LOCAL_OWNER, "ann")
    ann.people.add(LOCAL_OWNER, name="ann", role="viewer", password=OTHER)
    assert ann.caller_of_session(token) is None


def test_project_keys_outlive_their_maker_and_are_named(ann: Access) -> None:
    ann.people.set_role(LOCAL_OWNER, "ann", "admin")
    _, caller = signed_in(ann, "ann")
    _, text = ann.keys.create(caller, name="nightly", role="developer")
    assert ann.people.remove(LOCAL_OWNER, "ann").keys == ["nightly"]
    assert ann.caller_of_key(text) is not None


def test_the_last_administrator_stays(ann: Access) -> None:
    with pytest.raises(Conflict, match="last administrator"):
        ann.people.remove(LOCAL_OWNER, "owner")
    with pytest.raises(Conflict, match="last administrator"):
        ann.people.set_role(LOCAL_OWNER, "owner", "developer")


def test_another_role_means_signing_in_anew(ann: Access) -> None:
    token, _ = signed_in(ann, "ann")
    ann.people.set_role(LOCAL_OWNER, "ann", "viewer")
    assert ann.caller_of_session(token) is None
    assert signed_in(ann, "ann")[1].capabilities == {"read"}
    with pytest.raises(InvalidRequest, match="viewer, developer, admin"):
        ann.people.set_role(LOCAL_OWNER, "ann", "boss")


def test_changing_ones_password_ends_ones_other_sign_ins(ann: Access) -> None:
    here, caller = signed_in(ann, "ann")
    there, _ = signed_in(ann, "ann")
    with pytest.raises(AccessDenied, match="not your current password"):
        ann.people.change_password(caller, OTHER, OTHER)
    ann.people.change_password(caller, PASSWORD, OTHER)
    assert ann.caller_of_session(here) is not None
    assert ann.caller_of_session(there) is None
    assert ann.open_session_by_password("ann", PASSWORD) is None
    signed_in(ann, "ann", OTHER)


def test_a_password_given_by_an_administrator_ends_every_sign_in(ann: Access) -> None:
    token, _ = signed_in(ann, "ann")
    ann.people.set_password(LOCAL_OWNER, "ann", OTHER)
    assert ann.caller_of_session(token) is None


def test_only_an_administrator_keeps_people(ann: Access) -> None:
    _, caller = signed_in(ann, "ann")
    for act in (
        lambda: ann.people.list_all(caller),
        lambda: ann.people.add(caller, name="bob", role="admin", password=PASSWORD),
        lambda: ann.people.set_role(caller, "ann", "admin"),
        lambda: ann.people.remove(caller, "owner"),
        lambda: ann.people.set_password(caller, "owner", OTHER),
        lambda: ann.settings.set(caller, "allowed_hosts", "evil.example"),
    ):
        with pytest.raises(AccessDenied):
            act()


def test_a_key_has_no_password_to_change(ann: Access) -> None:
    _, text = ann.keys.create(LOCAL_OWNER, name="k", role="developer")
    caller = ann.caller_of_key(text)
    assert caller is not None
    with pytest.raises(AccessDenied, match="sign in as a person"):
        ann.people.change_password(caller, "", PASSWORD)


async def test_the_form_takes_name_and_password(ann: Access) -> None:
    async with browser(doors(ann)) as client:
        assert 'name="password"' in (await client.get("/sign-in")).text
        refused = await sign_in_as(client, "ann", OTHER)
        assert refused.status_code == 401
        assert "do not belong together" in refused.text
        assert (await sign_in_as(client, "Ann ", PASSWORD)).status_code == 303
        assert (await client.get("/")).json()["actor"] == "ann"


async def test_signing_in_anew_ends_what_the_browser_had_before(ann: Access) -> None:
    async with browser(doors(ann)) as client:
        await sign_in_as(client, "ann", PASSWORD)
        (before,) = client.cookies.jar
        await sign_in_as(client, "ann", PASSWORD)
        (after,) = client.cookies.jar
        assert before.value and after.value and before.value != after.value
        assert ann.caller_of_session(before.value) is None
        assert ann.caller_of_session(after.value) is not None


async def test_a_removed_person_is_led_to_sign_in(ann: Access) -> None:
    async with browser(doors(ann)) as client:
        await sign_in_as(client, "ann", PASSWORD)
        ann.people.remove(LOCAL_OWNER, "ann")
        assert (await client.get("/")).status_code == 303
        assert (await client.post("/v1/me", headers=OWN, json={})).status_code == 401
