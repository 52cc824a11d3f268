"""The guard from outside: foreign hosts and origins, strangers, sign-in, sockets, headers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app import guard as guard_module
from app import sign_in
from app.access import Access
from app.guard import Guard
from app.refusals import safe_next
from data.home import Home
from tests.app.conftest import Clock

PORT = 8710
HOST = f"127.0.0.1:{PORT}"
BASE = f"http://{HOST}"


async def page(request: Request) -> HTMLResponse:
    return HTMLResponse(f"hello {request.state.caller.actor}")


async def runs(request: Request) -> JSONResponse:
    return JSONResponse({"path": request.url.path, "actor": request.state.caller.actor})


async def missing(request: Request, error: Exception) -> HTMLResponse:
    return HTMLResponse("<h1>not found</h1>", status_code=404)


async def asset(request: Request) -> PlainTextResponse:
    return PlainTextResponse("body {}")


async def echo(socket: WebSocket) -> None:
    await socket.accept()
    try:
        while True:
            await socket.send_text(await socket.receive_text())
    except WebSocketDisconnect:
        pass


def show(*, next_path: str, error: str | None, theme: str, base: str, by_password: bool) -> str:
    return f"sign in, then {next_path}; {error}; {theme}"


def show_cli(**shown: object) -> str:
    return str(shown)


@pytest.fixture
def app(access: Access) -> Guard:
    routes = [
        *sign_in.routes(access, port=PORT, page=show, cli_page=show_cli),
        Route("/", page),
        Route("/runs/{run}", page),
        Route("/v1/runs", runs, methods=["GET", "POST"]),
        Route("/_nicegui/3.18.0/static/a.css", asset),
        Route("/_nicegui/3.18.0/dynamic_resources/x", asset),
        WebSocketRoute("/_nicegui_ws/socket.io", echo),
    ]
    inner = Starlette(routes=routes, exception_handlers={404: missing})
    return Guard(
        inner,
        access=access,
        port=PORT,
        allowed_hosts=["lab.example"],
        allowed_origins=["https://lab.example"],
    )


@pytest.fixture
async def browser(app: Guard) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as client:
        yield client


@pytest.fixture
async def signed_in(browser: httpx.AsyncClient, access: Access) -> httpx.AsyncClient:
    answer = await browser.get(access.sign_in_link(BASE))
    assert answer.status_code == 200
    return browser


@pytest.mark.parametrize(
    "host", ["127.0.0.1", HOST, "localhost:9999", "[::1]:8710", "LocalHost", "lab.example"]
)
async def test_known_hosts_on_any_port_are_answered(
    signed_in: httpx.AsyncClient, host: str
) -> None:
    answer = await signed_in.get("/v1/runs", headers={"Host": host})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.",
        "127.0.0.1:80@evil",
        "",
        "[::2]",
        "a b",
    ],
)
@pytest.mark.parametrize("path", ["/", "/v1/runs", "/sign-in", "/_nicegui/3.18.0/static/a.css"])
async def test_a_foreign_host_is_misdirected_everywhere(
    signed_in: httpx.AsyncClient, host: str, path: str
) -> None:
    answer = await signed_in.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert answer.json()["code"] == "INVALID_REQUEST"
    assert "allowed_hosts" in answer.json()["message"]


@pytest.mark.parametrize("origin", [BASE, "https://lab.example"])
async def test_own_and_configured_origins_pass(signed_in: httpx.AsyncClient, origin: str) -> None:
    answer = await signed_in.post("/v1/runs", headers={"Origin": origin}, json={})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "https://127.0.0.1:8710",
        "http://127.0.0.1:1",
        "http://localhost",
    ],
)
@pytest.mark.parametrize("path", ["/", "/v1/runs", "/sign-in"])
async def test_a_foreign_origin_is_refused_everywhere(
    signed_in: httpx.AsyncClient, origin: str, path: str
) -> None:
    answer = await signed_in.get(path, headers={"Origin": origin})
    assert answer.status_code == 403
    assert answer.json()["code"] == "ACCESS_DENIED"


async def test_a_stranger_is_led_to_sign_in_and_back(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/runs/a-1?tab=rounds")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?next=%2Fruns%2Fa-1%3Ftab%3Drounds"
    form = await browser.get(answer.headers["location"])
    assert "then /runs/a-1?tab=rounds" in form.text


@pytest.mark.parametrize("path", ["/v1/runs", "/api/v1/runs", "/v1/unknown", "/api/x", "/session"])
async def test_a_stranger_gets_json_on_the_api(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status_code == 401
    assert answer.json()["code"] == "UNAUTHORIZED"
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_assets_are_open_and_everything_else_of_the_framework_is_not(
    browser: httpx.AsyncClient,
) -> None:
    assert (await browser.get("/_nicegui/3.18.0/static/a.css")).status_code == 200
    for path in ("/_nicegui/3.18.0/dynamic_resources/x", "/_nicegui_ws/socket.io/?EIO=4"):
        assert (await browser.get(path)).status_code == 401
    assert (await browser.post("/_nicegui/3.18.0/static/a.css")).status_code == 401


async def test_a_link_sets_a_strict_cookie_and_moves_on_as_an_own_request(
    browser: httpx.AsyncClient, access: Access
) -> None:
    answer = await browser.get(access.sign_in_link(BASE))
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(f"pawl_{PORT}=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert answer.status_code == 200  # a redirect would keep the strict cookie away
    assert 'http-equiv="refresh" content="0;url=/"' in answer.text
    assert (await browser.get("/")).text == "hello owner"


async def test_a_used_link_says_so(browser: httpx.AsyncClient, access: Access) -> None:
    link = access.sign_in_link(BASE)
    await browser.get(link)
    browser.cookies.clear()
    answer = await browser.get(link)
    assert answer.status_code == 401
    assert "used already or has expired" in answer.text


async def test_the_form_takes_the_owner_key(browser: httpx.AsyncClient, home: Home) -> None:
    key = home.owner_key.read_text()
    answer = await browser.post("/session", data={"key": key, "next": "/runs/a-1"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/runs/a-1"
    assert (await browser.get("/runs/a-1")).text == "hello owner"


async def test_the_form_page_lets_the_browser_name_its_origin(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/sign-in")
    assert answer.headers["referrer-policy"] == "same-origin"


async def test_failed_tries_make_the_next_ones_wait(
    browser: httpx.AsyncClient, home: Home, clock: Clock
) -> None:
    for _ in range(5):
        assert (await browser.post("/session", data={"key": "wrong"})).status_code == 401
    answer = await browser.post("/session", data={"key": home.owner_key.read_text()})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    clock.let_pass(1.05)
    answer = await browser.post("/session", data={"key": home.owner_key.read_text()})
    assert answer.status_code == 303


async def test_signing_out_ends_the_session(signed_in: httpx.AsyncClient) -> None:
    cookie = signed_in.cookies[f"pawl_{PORT}"]
    answer = await signed_in.post("/session/end", headers={"Origin": BASE})
    assert answer.status_code == 303
    old = {"Cookie": f"pawl_{PORT}={cookie}"}
    assert (await signed_in.get("/", headers=old)).status_code == 303
    assert (await signed_in.get("/session", headers=old)).status_code == 401


async def test_a_link_clicked_elsewhere_comes_back_as_an_own_request(
    browser: httpx.AsyncClient,
) -> None:
    answer = await browser.get("/runs/a-1?x=1", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert 'content="0;url=/runs/a-1?x=1"' in answer.text
    answer = await browser.get("/runs/a-1", headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 303


@pytest.mark.parametrize(
    "path",
    ["//evil.example/", "https://evil.example", "/\\evil.example", "javascript:x", "\n/", ""],
)
def test_sign_in_never_leads_to_another_site(path: str) -> None:
    assert safe_next(path) == "/"


async def test_moving_on_never_leads_to_another_site(browser: httpx.AsyncClient) -> None:
    answer = await browser.get(f"{BASE}//evil.example/", headers={"Sec-Fetch-Site": "cross-site"})
    assert "evil" not in answer.text
    text = (await browser.get('/x"><script>', headers={"Sec-Fetch-Site": "cross-site"})).text
    assert "<script" not in text


async def test_a_bearer_key_needs_no_origin_and_ignores_the_cookie(
    signed_in: httpx.AsyncClient, home: Home
) -> None:
    key = {"Authorization": f"Bearer {home.owner_key.read_text().strip()}"}
    assert (await signed_in.post("/v1/runs", headers=key)).status_code == 200
    wrong = {"Authorization": "Bearer pawl_owner_wrong"}
    assert (await signed_in.get("/v1/runs", headers=wrong)).status_code == 401


async def test_a_change_by_cookie_needs_to_come_from_this_site(
    signed_in: httpx.AsyncClient,
) -> None:
    answer = await signed_in.post("/v1/runs", json={})
    assert answer.status_code == 403
    same = {"Sec-Fetch-Site": "same-origin"}
    assert (await signed_in.post("/v1/runs", headers=same, json={})).status_code == 200


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_a_change_by_cookie_needs_to_be_json(
    signed_in: httpx.AsyncClient, kind: str | None
) -> None:
    headers = {"Origin": BASE} | ({"Content-Type": kind} if kind else {})
    answer = await signed_in.post("/v1/runs", headers=headers, content=b"{}")
    assert answer.status_code == 415
    assert answer.json()["code"] == "INVALID_REQUEST"


async def test_a_neighbours_cookie_of_our_name_does_not_lock_out(
    signed_in: httpx.AsyncClient,
) -> None:
    cookie = signed_in.cookies[f"pawl_{PORT}"]
    both = {"Cookie": f"pawl_{PORT}=junk; other=1; pawl_{PORT}={cookie}"}
    assert (await signed_in.get("/", headers=both)).text == "hello owner"


@pytest.mark.parametrize("path", ["/api/v1/runs", "/v1/runs/", "/api/v1/runs//", "/v1/runs"])
async def test_both_base_paths_and_trailing_slashes_meet_one_route(
    signed_in: httpx.AsyncClient, path: str
) -> None:
    answer = await signed_in.get(path)
    assert (answer.status_code, answer.json()["path"]) == (200, "/v1/runs")


@pytest.mark.parametrize("path", ["/v1/unknown", "/api/v1/unknown", "/api/unknown"])
async def test_an_unknown_api_path_is_json(signed_in: httpx.AsyncClient, path: str) -> None:
    answer = await signed_in.get(path)
    assert answer.status_code == 404
    assert answer.json()["code"] == "NOT_FOUND"
    assert (await signed_in.get("/unknown-page")).text == "<h1>not found</h1>"


async def test_a_crash_on_an_api_path_is_json(access: Access, home: Home) -> None:
    def breaks(_: Request) -> Response:
        raise RuntimeError("the inside")

    routes = [Route("/v1/broken", breaks), Route("/broken", breaks)]
    guard = Guard(Starlette(routes=routes), access=access, port=PORT)
    transport = httpx.ASGITransport(guard, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {home.owner_key.read_text().strip()}"}
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers) as http:
        answer, page = await http.get("/v1/broken"), await http.get("/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL_SERVER_ERROR")
    assert "inside" not in answer.text
    assert (page.status_code, page.text) == (500, "Internal Server Error")


@pytest.mark.parametrize("path", ["/", "/v1/runs", "/sign-in", "/v1/unknown"])
async def test_every_answer_has_the_security_headers(
    signed_in: httpx.AsyncClient, path: str
) -> None:
    headers = (await signed_in.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] in {"no-referrer", "same-origin"}
    policy = headers["content-security-policy"]
    for part in ("default-src 'self'", "frame-ancestors 'none'", "object-src 'none'"):
        assert part in policy
    assert "*" not in policy


# Sockets


class Socket:
    """One WebSocket to the application, spoken in ASGI messages."""

    def __init__(self, app: Guard, **headers: str) -> None:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.scope: dict[str, Any] = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": "/_nicegui_ws/socket.io",
            "raw_path": b"/_nicegui_ws/socket.io",
            "query_string": b"",
            "root_path": "",
            "headers": raw,
            "subprotocols": [],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", PORT),
        }
        self.to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.from_app: asyncio.Queue[Any] = asyncio.Queue()
        self.to_app.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(self._run(app))

    async def _run(self, app: Guard) -> None:
        await app(self.scope, self.to_app.get, self.from_app.put)

    async def next(self) -> dict[str, Any]:
        message: dict[str, Any] = await asyncio.wait_for(self.from_app.get(), timeout=60)
        return message

    async def end(self) -> None:
        self.to_app.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self.task


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": HOST, "origin": "http://evil.example"},
        {"host": HOST, "origin": "null"},
    ],
)
async def test_a_foreign_socket_is_closed_before_it_opens(
    app: Guard, signed_in: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    cookie = f"pawl_{PORT}={signed_in.cookies[f'pawl_{PORT}']}"
    socket = Socket(app, cookie=cookie, **headers)
    assert (await socket.next())["type"] == "websocket.close"
    await socket.task


async def test_a_strangers_socket_is_closed_before_it_opens(app: Guard) -> None:
    socket = Socket(app, host=HOST, origin=BASE)
    assert (await socket.next())["type"] == "websocket.close"
    await socket.task


async def test_a_signed_in_socket_works_until_the_sign_out(
    app: Guard,
    signed_in: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard_module, "SOCKET_CHECK_SECONDS", 0.05)
    cookie = f"pawl_{PORT}={signed_in.cookies[f'pawl_{PORT}']}"
    socket = Socket(app, host=HOST, origin=BASE, cookie=cookie)
    assert (await socket.next())["type"] == "websocket.accept"
    socket.to_app.put_nowait({"type": "websocket.receive", "text": "hello"})
    assert (await socket.next())["text"] == "hello"
    await signed_in.post("/session/end", headers={"Origin": BASE})
    closed = await socket.next()
    assert (closed["type"], closed["code"]) == ("websocket.close", 4401)
    socket.to_app.put_nowait({"type": "websocket.receive", "text": "still there?"})
    await socket.end()
    assert socket.from_app.empty()
