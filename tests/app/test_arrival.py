"""How requests come in: through proxies, below a base path, to the MCP path, too many at once."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from app import guard as guard_module
from app.access import Access
from app.administration import LOCAL_OWNER
from app.errors import InvalidRequest
from app.network import check_reach, is_loopback, url_on
from tests.app.doors import BASE, HOST, OWN, PORT, browser, doors, sign_in_as
from tests.app.test_guard import Socket

MCP = "/v1/agent-runs/rsi/mcp"
PASSWORD = "correct horse battery"


@pytest.fixture
def key(access: Access) -> dict[str, str]:
    """The header of a developer's key."""
    _, text = access.keys.create(LOCAL_OWNER, name="automation", role="developer")
    return {"Authorization": f"Bearer {text}"}


def setting(access: Access, name: str, value: str) -> None:
    access.settings.set(LOCAL_OWNER, name, value)


# Proxies and names


async def test_forwarded_headers_are_worth_nothing_by_themselves(
    access: Access, key: dict[str, str]
) -> None:
    told = {
        "X-Forwarded-For": "10.9.9.9",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Prefix": "//evil.example",
        "Forwarded": "for=10.9.9.9;proto=https",
    }
    async with browser(doors(access), "10.0.0.7") as client:
        seen = (await client.get("/v1/me", headers=key | told)).json()
    assert (seen["client"], seen["scheme"], seen["prefix"]) == ("10.0.0.7", "http", None)


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        ("203.0.113.5", "203.0.113.5"),
        ("203.0.113.5, 10.1.2.3", "203.0.113.5"),  # two proxies of ours
        ("6.6.6.6, 203.0.113.5", "203.0.113.5"),  # the first one was made up
        ("nonsense, 203.0.113.5", "203.0.113.5"),
        ("nonsense", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
async def test_a_configured_proxy_says_who_asks(
    access: Access, key: dict[str, str], chain: str, client: str
) -> None:
    setting(access, "trusted_proxies", "10.0.0.0/8, ::1")
    told = {"X-Forwarded-For": chain, "X-Forwarded-Proto": "https"}
    async with browser(doors(access), "10.0.0.1") as proxy:
        seen = (await proxy.get("/v1/me", headers=key | told)).json()
    assert (seen["client"], seen["scheme"]) == (client, "https")


async def test_behind_tls_the_cookie_is_secure_and_the_origin_is_https(access: Access) -> None:
    setting(access, "trusted_proxies", "127.0.0.1")
    setting(access, "allowed_hosts", "lab.example")
    access.people.add(LOCAL_OWNER, name="ann", role="developer", password=PASSWORD)
    told = {"X-Forwarded-Proto": "https", "Host": "lab.example"}
    form = {"name": "ann", "password": PASSWORD}
    async with browser(doors(access)) as proxy:
        plain = told | {"Origin": "http://lab.example"}
        assert (await proxy.post("/session", data=form, headers=plain)).status_code == 403
        own = told | {"Origin": "https://lab.example"}
        answer = await proxy.post("/session", data=form, headers=own)
    assert answer.status_code == 303
    assert "secure" in answer.headers["set-cookie"].lower()


async def test_a_name_added_to_the_settings_is_answered_at_once(
    access: Access, key: dict[str, str]
) -> None:
    async with browser(doors(access)) as client:
        foreign = key | {"Host": "lab.example:443"}
        assert (await client.get("/v1/me", headers=foreign)).status_code == 421
        setting(access, "allowed_hosts", "Lab.Example, 10.0.0.7")
        assert (await client.get("/v1/me", headers=foreign)).status_code == 200
        setting(access, "allowed_hosts", "")
        assert (await client.get("/v1/me", headers=foreign)).status_code == 421


@pytest.mark.parametrize("local_port", [1, 8710, 50123])
async def test_a_tunnel_may_end_at_any_local_port(
    access: Access, key: dict[str, str], local_port: int
) -> None:
    async with browser(doors(access), base=f"http://localhost:{local_port}") as client:
        assert (await client.get("/v1/me", headers=key)).status_code == 200
        link = access.sign_in_link(f"http://localhost:{local_port}")
        assert (await client.get(link)).status_code == 200
        own = {"Origin": f"http://localhost:{local_port}"}
        assert (await client.post("/v1/me", json={}, headers=own)).status_code == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allowed_hosts", "https://lab.example"),
        ("allowed_hosts", "lab.example:443"),
        ("allowed_hosts", "*"),
        ("device_usd_per_hour", "-1"),
        ("device_usd_per_hour", "free"),
        ("allowed_origins", "lab.example"),
        ("allowed_origins", "https://lab.example/x"),
        ("trusted_proxies", "*"),
        ("trusted_proxies", "proxy.example"),
        ("engine", "torch"),
        ("root_path", "lab"),
        ("root_path", "/<script>"),
        ("root_path", "//evil.example"),
        ("no_such_setting", "1"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(access: Access, name: str, value: str) -> None:
    with pytest.raises(InvalidRequest):
        setting(access, name, value)
    assert all(one.value == "" for one in access.settings.list_all(LOCAL_OWNER))


# A base path


@pytest.mark.parametrize("path", ["/lab/v1/me", "/v1/me", "/lab/api/v1/me/"])
async def test_a_base_path_may_or_may_not_be_taken_off_by_the_proxy(
    access: Access, key: dict[str, str], path: str
) -> None:
    setting(access, "root_path", "/lab/")
    async with browser(doors(access)) as client:
        seen = (await client.get(path, headers=key)).json()
    assert (seen["path"], seen["prefix"]) == ("/v1/me", "/lab")


async def test_the_way_to_sign_in_stays_below_the_base_path(access: Access) -> None:
    setting(access, "root_path", "/lab")
    async with browser(doors(access)) as client:
        answer = await client.get("/lab/runs/a-1?x=1")
        assert answer.headers["location"] == "/lab/sign-in?next=%2Fruns%2Fa-1%3Fx%3D1"
        form = await client.get(answer.headers["location"])
        assert 'action="/lab/session"' in form.text
        clicked = {"Sec-Fetch-Site": "cross-site"}
        moved = await client.get("/lab/runs/a-1", headers=clicked)
        assert 'content="0;url=/lab/runs/a-1"' in moved.text
        assert (await client.get("/laboratory")).headers["location"].endswith("%2Flaboratory")


# The MCP path


@pytest.mark.parametrize("path", [MCP, f"/api{MCP}", f"{MCP}/"])
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
async def test_mcp_takes_posts_alone(
    access: Access, key: dict[str, str], path: str, method: str
) -> None:
    async with browser(doors(access)) as client:
        answer = await client.request(method, path, headers=key)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert answer.headers["content-type"] == "application/json"
        assert (await client.post(path, headers=key)).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nope"}, {"Authorization": "x"}])
async def test_mcp_without_a_key_says_which_kind_it_wants(
    access: Access, headers: dict[str, str]
) -> None:
    async with browser(doors(access)) as client:
        answer = await client.post(MCP, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_mcp_knows_no_cookie(access: Access) -> None:
    async with browser(doors(access)) as client:
        await client.get(access.sign_in_link(BASE))
        assert (await client.get("/v1/me")).status_code == 200
        assert (await client.post(MCP, json={}, headers=OWN)).status_code == 401


# Too many


async def test_a_key_may_send_a_hundred_requests_at_once_and_is_then_slowed_down(
    access: Access, key: dict[str, str]
) -> None:
    async with browser(doors(access)) as client:
        began = time.monotonic()
        answers = [await client.get("/v1/me", headers=key) for _ in range(100)]
        assert {answer.status_code for answer in answers} == {200}
        refused, more = await first_refused(client, key)
        assert 100 + more <= 200 + 10 * (time.monotonic() - began) + 1
        assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
        assert int(refused.headers["retry-after"]) >= 1
        _, other = access.keys.create(LOCAL_OWNER, name="other", role="viewer")
        assert (
            await client.get("/v1/me", headers={"Authorization": f"Bearer {other}"})
        ).status_code == 200
        assert (await client.get("/v1/run/live", headers=key)).status_code == 200  # never slowed


async def first_refused(
    client: httpx.AsyncClient, headers: dict[str, str], usual: int = 200
) -> tuple[httpx.Response, int]:
    """The first answer that is not the usual one, and how many were: time gives back some room."""
    for number in range(2000):
        answer = await client.get("/v1/me", headers=headers)
        if answer.status_code != usual:
            break
    return answer, number


async def test_a_flood_without_a_key_is_slowed_down_by_address(
    access: Access, key: dict[str, str]
) -> None:
    guard = doors(access)
    wrong = {"Authorization": "Bearer nope"}
    async with browser(guard, "10.0.0.7") as client:
        began = time.monotonic()
        statuses = [(await client.get("/v1/me", headers=wrong)).status_code for _ in range(300)]
        assert set(statuses) == {401}
        refused, more = await first_refused(client, wrong, 401)
        assert refused.status_code == 429 and more <= 10 * (time.monotonic() - began) + 1
        assert (await client.get("/v1/me", headers=key)).status_code == 200
    async with browser(guard, "10.0.0.8") as client:
        assert (await client.get("/v1/me", headers=wrong)).status_code == 401


# Open sockets


def end_by_removal(access: Access, _key_id: str) -> None:
    access.people.remove(LOCAL_OWNER, "ann")


def end_by_role(access: Access, _key_id: str) -> None:
    access.people.set_role(LOCAL_OWNER, "ann", "viewer")


def end_by_password(access: Access, _key_id: str) -> None:
    access.people.set_password(LOCAL_OWNER, "ann", "another horse battery")


def end_by_revocation(access: Access, key_id: str) -> None:
    access.keys.revoke(LOCAL_OWNER, key_id)


@pytest.mark.parametrize("end", [end_by_removal, end_by_role, end_by_password, end_by_revocation])
async def test_what_ends_a_sign_in_closes_its_open_sockets(
    access: Access, monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    assert guard_module.SOCKET_CHECK_SECONDS < 4
    monkeypatch.setattr(guard_module, "SOCKET_CHECK_SECONDS", 0.05)
    info, text = access.keys.create(LOCAL_OWNER, name="automation", role="developer")
    access.people.add(LOCAL_OWNER, name="ann", role="developer", password=PASSWORD)
    token = access.open_session_by_password("ann", PASSWORD)
    by_key = {"authorization": f"Bearer {text}"}
    headers = by_key if end is end_by_revocation else {"cookie": f"pawl_{PORT}={token}"}
    socket = Socket(doors(access, inner=waiting), host=HOST, origin=BASE, **headers)
    assert (await socket.next())["type"] == "websocket.accept"
    await asyncio.sleep(0.12)
    assert socket.from_app.empty()
    end(access, info.id)
    closed = await socket.next()
    assert (closed["type"], closed["code"]) == ("websocket.close", 4401)
    await socket.end()


async def waiting(scope: Any, receive: Any, send: Any) -> None:
    """An application that accepts a socket and says nothing."""
    await receive()
    await send({"type": "websocket.accept"})
    await receive()


# Open to others


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::"])
def test_opening_to_others_needs_an_admin_with_a_password_and_names(
    access: Access, host: str
) -> None:
    with pytest.raises(InvalidRequest, match=r"user password owner(.|\n)*--allowed-hosts"):
        check_reach(host, access, None)
    access.people.set_password(LOCAL_OWNER, "owner", PASSWORD)
    with pytest.raises(InvalidRequest, match="--allowed-hosts"):
        check_reach(host, access, None)
    assert "lab.example" in check_reach(host, access, "Lab.example,10.0.0.7")
    setting(access, "allowed_hosts", "lab.example")
    check_reach(host, access, None)


def test_a_developer_with_a_password_is_not_enough(access: Access) -> None:
    access.people.add(LOCAL_OWNER, name="ann", role="developer", password=PASSWORD)
    with pytest.raises(InvalidRequest, match="admin with a password"):
        check_reach("0.0.0.0", access, "lab.example")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1"])
def test_loopback_needs_nothing(access: Access, host: str) -> None:
    assert check_reach(host, access, None) == frozenset()
    assert is_loopback(host)


def test_addresses_are_told_as_this_machine_sees_them() -> None:
    assert url_on("0.0.0.0", 8710) == "http://127.0.0.1:8710"
    assert url_on("::1", 8710) == "http://[::1]:8710"
    assert url_on("192.168.1.5", 8710) == "http://192.168.1.5:8710"


@pytest.mark.usefixtures("clock")
async def test_behind_a_proxy_each_address_is_throttled_by_itself(access: Access) -> None:
    access.people.add(LOCAL_OWNER, name="ann", role="developer", password=PASSWORD)
    setting(access, "trusted_proxies", "127.0.0.1")
    guard = doors(access)
    told = {"X-Forwarded-For": "203.0.113.5"}
    async with browser(guard) as proxy:
        proxy.headers.update(told)
        for number in range(5):
            await sign_in_as(proxy, f"user{number}", "wrong wrong wrong")
        assert (await sign_in_as(proxy, "user9", "wrong wrong wrong")).status_code == 429
        proxy.headers["X-Forwarded-For"] = "203.0.113.6"
        assert (await sign_in_as(proxy, "ann", PASSWORD)).status_code == 303
