"""Browser sign-in of a command line, as the published client speaks it, over HTTP."""

import hashlib
import re
import secrets
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest
from sqlmodel import Session

from app.access import Access
from app.administration import LOCAL_OWNER
from app.cli_grants import MOST_WAITING, CliGrants
from app.guard import Guard
from data.home import Home
from data.store import Store
from data.tables import ApiKey, Project
from tests.app.doors import BASE, OWN, browser, doors, sign_in_as

PASSWORD = "correct horse battery"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Client:
    """What the command line does: it makes key, token and code, and tells their hashes."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.key = f"epk_{secrets.token_hex(32)}"
        self.token, self.code = secrets.token_urlsafe(32), "ABCD2345"
        self.grant = ""

    async def start(self, prefix: str = "/v1") -> httpx.Response:
        hashes = {
            "key_hash": sha(self.key),
            "poll_hash": sha(self.token),
            "code_hash": sha(self.code),
        }
        answer = await self._http.post(f"{prefix}/auth/cli/start", json=hashes)
        self.grant = answer.json().get("grant_id", "")
        return answer

    async def poll(self, action: str = "poll") -> httpx.Response:
        body = {"grant_id": self.grant, "poll_token": self.token}
        return await self._http.post(f"/v1/auth/cli/{action}", json=body)

    async def status(self) -> str:
        return str((await self.poll()).json()["status"])


@pytest.fixture
def guard(access: Access) -> Guard:
    return doors(access)


@pytest.fixture
async def client(guard: Guard) -> AsyncIterator[Client]:
    async with browser(guard) as http:
        yield Client(http)


@pytest.fixture
async def ann(guard: Guard, access: Access) -> AsyncIterator[httpx.AsyncClient]:
    access.people.add(LOCAL_OWNER, name="ann", role="developer", password=PASSWORD)
    async with browser(guard) as http:
        await sign_in_as(http, "ann", PASSWORD)
        yield http


async def send(
    person: httpx.AsyncClient, client: Client, answer: str = "approve", **fields: str
) -> httpx.Response:
    """Send the form of the page that the person sees."""
    form = {"cli_login": client.grant, "code": client.code, "project": "prj_local"}
    return await person.post("/session/cli", data={**form, "answer": answer, **fields}, headers=OWN)


@pytest.mark.parametrize("prefix", ["/v1", "/api/v1"])
async def test_the_start_answers_as_the_client_wants_it(client: Client, prefix: str) -> None:
    answer = await client.start(prefix)
    body = answer.json()
    assert answer.status_code == 200
    assert uuid.UUID(body["grant_id"]).version == 4
    assert body["verification_uri"] == f"{BASE}/sign-in?cli_login={body['grant_id']}"
    assert 0 < body["interval"] <= 10
    assert type(body["expires_in"]) is int and 1 <= body["expires_in"] <= 600


@pytest.mark.parametrize("action", ["start", "poll", "cancel"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 8000,
        b'{"a":' * 1600,
        b'{"grant_id": "\\ud800", "poll_token": "x"}',
        b'{"grant_id": "GRANT", "poll_token": "\\ud800"}',
    ],
)
async def test_a_body_that_is_no_plain_object_is_refused(
    guard: Guard, client: Client, action: str, body: bytes
) -> None:
    await client.start()
    async with browser(guard) as http:
        sent = body.replace(b"GRANT", client.grant.encode())
        answer = await http.post(
            f"/v1/auth/cli/{action}", content=sent, headers={"Content-Type": "application/json"}
        )
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST")


async def test_the_page_is_under_the_host_that_the_client_knows(guard: Guard) -> None:
    async with browser(guard, base="http://localhost:4711") as http:
        uri = (await Client(http).start()).json()["verification_uri"]
    assert uri.startswith("http://localhost:4711/sign-in?cli_login=")


async def test_an_approved_key_works_for_thirty_days_as_its_person(
    client: Client, ann: httpx.AsyncClient, access: Access
) -> None:
    await client.start()
    assert await client.status() == "pending"
    page = await ann.get(f"/sign-in?cli_login={client.grant}")
    assert "Confirmation code" in page.text and "127.0.0.1" in page.text
    assert page.headers["referrer-policy"] == "same-origin"
    assert (await send(ann, client, code="abcd-2345 ")).status_code == 200
    for _ in range(2):
        assert (await client.poll()).json() == {
            "status": "approved",
            "workspace_id": "ws_local",
            "project_id": "prj_local",
        }
    caller = access.caller_of_key(client.key)
    assert caller is not None
    assert caller.actor == f"key:el-ann-{client.grant[:8]}"
    assert {"training.run", "training.stop"} < caller.capabilities
    (key,) = [key for key in access.keys.visible(LOCAL_OWNER) if key.made_by == "ann"]
    assert key.expires_at is not None
    assert key.expires_at[:10] > key.created_at[:10]
    me = await browser(doors(access)).get(
        "/v1/me", headers={"Authorization": f"Bearer {client.key}"}
    )
    assert me.json()["actor"] == caller.actor


async def test_the_database_never_sees_key_token_or_code(
    client: Client, ann: httpx.AsyncClient, store: Store, home: Home
) -> None:
    await client.start()
    await send(ann, client)
    store.close()
    dump = "\n".join(sqlite3.connect(home.database).iterdump())
    for secret in (client.key, client.token, client.code):
        assert secret not in dump
        assert sha(secret) in dump


async def test_a_viewer_grants_no_more_than_reading(
    client: Client, guard: Guard, access: Access
) -> None:
    access.people.add(LOCAL_OWNER, name="vic", role="viewer", password=PASSWORD)
    await client.start()
    async with browser(guard) as vic:
        await sign_in_as(vic, "vic", PASSWORD)
        assert (await send(vic, client)).status_code == 200
    caller = access.caller_of_key(client.key)
    assert caller is not None and caller.capabilities == {"read"}


async def test_the_key_follows_its_persons_role_and_ends_with_them(
    client: Client, ann: httpx.AsyncClient, access: Access
) -> None:
    await client.start()
    await send(ann, client)
    access.people.set_role(LOCAL_OWNER, "ann", "viewer")
    caller = access.caller_of_key(client.key)
    assert caller is not None and caller.capabilities == {"read"}
    access.people.remove(LOCAL_OWNER, "ann")
    assert access.caller_of_key(client.key) is None


async def test_the_person_chooses_the_project(
    client: Client, ann: httpx.AsyncClient, access: Access, store: Store
) -> None:
    store.write(lambda db: db.add(Project(id="prj_two", workspace_id="ws_local", name="Second")))
    await client.start()
    assert "Second" in (await ann.get(f"/sign-in?cli_login={client.grant}")).text
    await send(ann, client, project="prj_two")
    assert (await client.poll()).json()["project_id"] == "prj_two"
    caller = access.caller_of_key(client.key)
    assert caller is not None and caller.project_id == "prj_two"


async def test_five_wrong_codes_end_it(
    client: Client, ann: httpx.AsyncClient, access: Access
) -> None:
    await client.start()
    for left in (4, 3, 2, 1):
        refused = await send(ann, client, code="WRNG2345")
        assert refused.status_code == 422
        assert f"{left} more tries" in refused.text
    assert (await send(ann, client, code="WRNG2345")).status_code == 409
    assert (await send(ann, client)).status_code == 409
    assert await client.status() == "denied"
    assert access.caller_of_key(client.key) is None


async def test_denying_gives_nothing(
    client: Client, ann: httpx.AsyncClient, access: Access
) -> None:
    await client.start()
    assert "Denied" in (await send(ann, client, "deny", code="")).text
    assert await client.status() == "denied"
    assert (await send(ann, client)).status_code == 409
    assert access.caller_of_key(client.key) is None


async def test_cancelling_takes_back_what_was_granted(
    client: Client, ann: httpx.AsyncClient, access: Access
) -> None:
    await client.start()
    await send(ann, client)
    assert access.caller_of_key(client.key) is not None
    assert (await client.poll("cancel")).status_code == 200
    assert await client.status() == "cancelled"
    assert access.caller_of_key(client.key) is None


async def test_after_ten_minutes_it_is_over(
    client: Client, ann: httpx.AsyncClient, store: Store
) -> None:
    await client.start()

    def pass_time(session: Session) -> None:
        session.connection().exec_driver_sql(
            "UPDATE cligrant SET expires_at = '2000-01-01T00:00:00.000Z'"
        )

    store.write(pass_time)
    assert (await client.poll()).status_code == 410
    assert "older than ten minutes" in (await ann.get(f"/sign-in?cli_login={client.grant}")).text
    assert (await send(ann, client)).status_code == 409


async def test_only_the_one_who_asked_may_poll_or_cancel(client: Client) -> None:
    await client.start()
    client.token, own = "somebody-elses", client.token
    for action in ("poll", "cancel"):
        refused = await client.poll(action)
        assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    client.token, known = own, client.grant
    assert await client.status() == "pending"
    client.grant = str(uuid.uuid4())
    assert (await client.poll()).status_code == 403
    client.grant = known


async def test_nobody_approves_without_signing_in(
    client: Client, guard: Guard, access: Access
) -> None:
    access.people.add(LOCAL_OWNER, name="ann", role="developer", password=PASSWORD)
    await client.start()
    async with browser(guard) as stranger:
        address = f"/sign-in?cli_login={client.grant}"
        page = await stranger.get(address)
        assert 'name="password"' in page.text and "Confirmation code" not in page.text
        assert f'name="next" value="{address}"' in page.text
        assert (await send(stranger, client)).status_code == 401
        form = {"name": "ann", "password": PASSWORD, "next": address}
        moved = await stranger.post("/session", data=form, headers=OWN)
        assert moved.headers["location"] == address
    key = access.keys.create(LOCAL_OWNER, name="k", role="developer")[1]
    async with browser(guard) as script:
        script.headers["Authorization"] = f"Bearer {key}"
        assert (await send(script, client)).status_code == 403


async def test_another_sites_form_does_not_approve(client: Client, ann: httpx.AsyncClient) -> None:
    await client.start()
    form = {"cli_login": client.grant, "code": client.code, "project": "prj_local"}
    for headers in ({"Origin": "http://127.0.0.1:9"}, {"Origin": "null"}, {}):
        data = {**form, "answer": "approve"}
        assert (await ann.post("/session/cli", data=data, headers=headers)).status_code == 403
    assert await client.status() == "pending"


@pytest.mark.parametrize("action", ["start", "poll", "cancel"])
@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"{broken", "application/json", 422),
        (b"[]", "application/json", 422),
        (b"{}", "application/json", 422),
        (b'{"key_hash": "' + b"A" * 64 + b'", "grant_id": 1}', "application/json; charset=x", 422),
        (b'"' + b"x" * 9000 + b'"', "application/json", 413),
    ],
)
async def test_anything_else_is_refused_with_a_code(
    client: Client, action: str, content: bytes, kind: str, status: int
) -> None:
    url, headers = f"/v1/auth/cli/{action}", {"Content-Type": kind}
    answer = await client._http.post(url, content=content, headers=headers)
    assert answer.status_code == status
    assert re.fullmatch("[A-Z_]+", answer.json()["code"])


async def test_a_known_key_cannot_be_asked_for_again(client: Client) -> None:
    assert (await client.start()).status_code == 200
    again = await client.start()
    assert (again.status_code, again.json()["code"]) == (409, "CONFLICT")


async def test_the_key_of_another_cannot_be_asked_for(client: Client, access: Access) -> None:
    _, client.key = access.keys.create(LOCAL_OWNER, name="k", role="viewer")
    assert (await client.start()).status_code == 409


async def test_an_address_that_starts_too_many_has_to_wait(guard: Guard) -> None:
    async with browser(guard) as http:
        began = time.monotonic()
        answers = [await Client(http).start() for _ in range(20)]
        assert [answer.status_code for answer in answers] == [200] * 20
        for more in range(200):  # time gives back some room
            if (refused := await Client(http).start()).status_code != 200:
                break
        assert more <= 0.5 * (time.monotonic() - began) + 1
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1


def test_only_so_many_wait_for_a_person(store: Store) -> None:
    grants = CliGrants(store)

    def start() -> str:
        hashes = {name: secrets.token_hex(32) for name in ("key_hash", "poll_hash", "code_hash")}
        return grants.start(address="10.0.0.7", **hashes)

    for _ in range(MOST_WAITING):
        start()
    with pytest.raises(Exception, match="wait already"):
        start()


async def test_a_page_for_an_unknown_request_says_so(ann: httpx.AsyncClient) -> None:
    for odd in ("nope", "<script>1</script>"):
        page = await ann.get("/sign-in", params={"cli_login": odd})
        assert page.status_code == 404
        assert "start it anew" in page.text and "<script>1" not in page.text


async def test_the_name_of_a_key_tells_whose_command_line_it_is(
    client: Client, ann: httpx.AsyncClient, store: Store
) -> None:
    await client.start()
    await send(ann, client)
    with store.read() as session:
        row = session.get_one(ApiKey, f"cli-{client.grant[:8]}")
    assert row.name == f"el-ann-{client.grant[:8]}"
