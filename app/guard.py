"""The outermost ASGI layer: lets in known hosts, own origins and signed-in callers, nothing else.

It answers on its own: 421 for a foreign Host, 403 for a foreign Origin, 401 (or the way to the
sign-in page) without a session or key, 405 for anything but POST on the MCP path, 429 for too many
requests, and JSON for an unknown path of the API. What a caller may do is not decided here but in
the service.
"""

import asyncio
import re
from collections.abc import Iterable
from functools import partial

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access import Access, cookie_name
from app.arrival import API, LOOPBACK, MCP_PATH, arrived, host_of, own_origin
from app.caller import Caller
from app.rate import Rate
from app.refusals import (
    foreign_host,
    foreign_origin,
    in_json,
    refused,
    too_many,
    unknown,
    with_headers,
)

OPEN_PATHS = frozenset({"/sign-in", "/healthz", "/readyz", "/favicon.ico"})
OPEN_POSTS = frozenset(
    {"/session", "/v1/auth/cli/start", "/v1/auth/cli/poll", "/v1/auth/cli/cancel"}
)
SIGNED = re.compile(r"/v1/downloads/[^/]+(/[^/]+)?\Z")  # they need the token in their query
ASSETS = re.compile(r"/_nicegui/[^/]+/(static|libraries|components|resources|esm)/")
UNLIMITED = re.compile(r"/v1/.*/live|/v1/.*/completions|/v1/completions|/v1/systemone")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SOCKET_CHECK_SECONDS = 3.0  # what ends a sign-in closes its open sockets within this time
SIGNED_OUT = 4401


class Guard:
    """Wraps the whole application; `port` is the server's own and names its cookie.

    `allowed_hosts` are host names without a port and `allowed_origins` whole origins
    ("https://lab.example"), both beside those of the settings. A page finds its caller in
    `request.state.caller`, and asks again with `request.state.recheck()`, which gives None once
    the person has signed out.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        port: int,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._access = access
        self._cookie = cookie_name(port)
        self._hosts = LOOPBACK | {host.lower() for host in allowed_hosts}
        self._origins = frozenset(origin.lower() for origin in allowed_origins)
        self._requests = Rate(burst=200, per_second=10)  # the published client walks lists at once
        self._strangers = Rate(burst=300, per_second=10)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = arrived(scope, self._access.settings.network)
            await self._http(scope, receive, with_headers(send))
        elif scope["type"] == "websocket":
            scope = arrived(scope, self._access.settings.network)
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is None and not _is_open(scope):
            refusal = await self._sign_in_needed(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
        elif API.match(scope["path"]):
            await self._app(scope, receive, in_json(scope, receive, send))
        else:
            await self._app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if self._refusal(scope, headers) is not None or not await self._know(scope, headers):
            await receive()
            await send({"type": "websocket.close", "code": SIGNED_OUT})
            return
        gate = _Gate(send)
        watch = asyncio.create_task(self._watch(scope, headers, gate))
        try:
            await self._app(scope, receive, gate.send)
        finally:
            watch.cancel()

    async def _watch(self, scope: Scope, headers: Headers, gate: "_Gate") -> None:
        """Close the socket once its session or key is no longer good, or may do something else."""
        opened_by: Caller = scope["state"]["caller"]
        while True:
            caller = await self._caller(scope, headers, extend=False)
            if caller is None or caller.capabilities != opened_by.capabilities:
                break
            await asyncio.sleep(SOCKET_CHECK_SECONDS)
        await gate.close(SIGNED_OUT)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a foreign Host (421) or Origin (403), None when both are fine."""
        network = self._access.settings.network
        host = host_of(headers, self._hosts | network.hosts)
        if host is None:
            return foreign_host(headers)
        trusted = self._origins | network.origins | {own_origin(scope, host)}
        if any(origin.lower() not in trusted for origin in headers.getlist("origin")):
            return foreign_origin()
        return None

    async def _sign_in_needed(self, scope: Scope, headers: Headers) -> Response | None:
        """None for a known caller, who is then in the scope's state; else the answer to give."""
        if not await self._know(scope, headers):
            wait = self._strangers.take(str((scope.get("client") or [""])[0]))
            return (
                too_many(wait, "requests without a valid key") if wait else unknown(scope, headers)
            )
        path, method = scope["path"], scope["method"]
        if path == MCP_PATH and method != "POST":
            return refused(
                405, "METHOD_NOT_ALLOWED", "send JSON-RPC messages with POST", {"Allow": "POST"}
            )
        if API.match(path) and not UNLIMITED.fullmatch(path):
            caller: Caller = scope["state"]["caller"]
            wait = self._requests.take(caller.key_id or caller.sign_in or "")
            if wait:
                return too_many(wait, "requests")
        return _foreign_write(scope, headers)

    async def _know(self, scope: Scope, headers: Headers) -> bool:
        caller = await self._caller(scope, headers, extend=True)
        if caller is not None:
            scope["state"]["caller"] = caller
            scope["state"]["recheck"] = partial(self._find, scope["path"], headers, extend=True)
        return caller is not None

    async def _caller(self, scope: Scope, headers: Headers, *, extend: bool) -> Caller | None:
        return await asyncio.to_thread(self._find, scope["path"], headers, extend=extend)

    def _find(self, path: str, headers: Headers, *, extend: bool) -> Caller | None:
        """Who sends these headers: by bearer key when there is one, else by session cookie.

        Agents have keys: on the MCP path a cookie counts for nothing.
        """
        authorization = headers.get("authorization")
        if authorization is not None:
            scheme, _, key = authorization.partition(" ")
            return self._access.caller_of_key(key.strip()) if scheme.lower() == "bearer" else None
        for token in cookies(headers, self._cookie)[:4] if path != MCP_PATH else []:
            caller = self._access.caller_of_session(token, extend=extend)
            if caller is not None:
                return caller
        return None


def cookies(headers: Headers, name: str) -> list[str]:
    """Every value sent for a cookie: a neighbour on another port may have set one like ours."""
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return [value for key, _, value in pairs if key == name and value]


class _Gate:
    """A socket's `send` that falls silent once the socket was closed from here."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._closed = False

    async def send(self, message: Message) -> None:
        if not self._closed:
            self._closed = message["type"] == "websocket.close"
            await self._send(message)

    async def close(self, code: int) -> None:
        await self.send({"type": "websocket.close", "code": code})


def _is_open(scope: Scope) -> bool:
    """Whether a request needs no session: the ways in, health, icon, static assets of pages."""
    path, method = scope["path"], scope["method"]
    if method == "POST":
        return path in OPEN_POSTS
    if method not in SAFE_METHODS:
        return False
    return path in OPEN_PATHS or any(known.match(path) for known in (ASSETS, SIGNED))


def _foreign_write(scope: Scope, headers: Headers) -> Response | None:
    """The answer to a change by cookie that a page of another site could have sent."""
    if "authorization" in headers or scope["method"] in SAFE_METHODS:
        return None
    if "origin" not in headers and headers.get("sec-fetch-site") != "same-origin":
        return refused(
            403, "ACCESS_DENIED", "a change made with the browser's cookie needs its Origin"
        )
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if API.match(scope["path"]) and kind != "application/json":
        return refused(415, "INVALID_REQUEST", "send Content-Type: application/json")
    return None
