"""The outermost ASGI layer: lets in known hosts, own origins and signed-in callers, nothing else.

It answers on its own: 421 for a foreign Host, 403 for a foreign Origin, 401 (or the way to the
sign-in page) without a session or key, and JSON for an unknown path of the API. It also maps
`/api/v1` onto `/v1`. What a caller may do is not decided here but in the service.
"""

import asyncio
import re
from collections.abc import Iterable
from functools import partial
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access import Access, cookie_name
from app.caller import Caller

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
OPEN_PATHS = frozenset({"/sign-in", "/healthz", "/favicon.ico"})
ASSETS = re.compile(r"/_nicegui/[^/]+/(static|libraries|components|resources|esm)/")
API = re.compile(r"/(v1|api|mcp)(/|$)")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SOCKET_CHECK_SECONDS = 4.0  # a sign-out closes open sockets within this time
SIGNED_OUT = 4401

# NiceGUI renders its pages from inline scripts and compiles templates in the browser: without
# unsafe-inline or unsafe-eval for scripts, or unsafe-inline for styles, its pages stay empty.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self' ws:; "
    "form-action 'self'; frame-ancestors 'none'; object-src 'none'; base-uri 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


class Guard:
    """Wraps the whole application; `port` is the server's own and names its cookie.

    `allowed_hosts` are host names without a port beside the loopback ones, `allowed_origins`
    whole origins ("https://lab.example") beside each Host's own. A page finds its caller in
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(_mapped(scope), receive, _with_headers(send))
        elif scope["type"] == "websocket":
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
            await self._app(scope, receive, _json_not_found(scope, receive, send))
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
        """Close the socket once its session or key is no longer good."""
        while await self._caller(headers, extend=False) is not None:
            await asyncio.sleep(SOCKET_CHECK_SECONDS)
        await gate.close(SIGNED_OUT)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a foreign Host (421) or Origin (403), None when both are fine."""
        hosts = headers.getlist("host")
        match = HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        if match is None or match[1] not in self._hosts:
            return _refused(
                421,
                "INVALID_REQUEST",
                f"this server does not answer to the host {', '.join(hosts)[:80] or '(none)'!r}; "
                "use 127.0.0.1 or localhost, or add the name to the setting allowed_hosts",
            )
        scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        own = f"{scheme}://{match[0]}"
        origins = [origin.lower() for origin in headers.getlist("origin")]
        if any(origin != own and origin not in self._origins for origin in origins):
            return _refused(
                403,
                "ACCESS_DENIED",
                "this request comes from another site; open the console under one address, or add "
                "the site to the setting allowed_origins",
            )
        return None

    async def _sign_in_needed(self, scope: Scope, headers: Headers) -> Response | None:
        """None for a known caller, who is then in the scope's state; else the answer to give."""
        if not await self._know(scope, headers):
            return _unknown(scope, headers)
        cross_site = "origin" not in headers and headers.get("sec-fetch-site") != "same-origin"
        by_cookie = "authorization" not in headers
        if by_cookie and cross_site and scope["method"] not in SAFE_METHODS:
            return _refused(
                403, "ACCESS_DENIED", "a change made with the browser's cookie needs its Origin"
            )
        return None

    async def _know(self, scope: Scope, headers: Headers) -> bool:
        caller = await self._caller(headers, extend=True)
        if caller is not None:
            state = scope.setdefault("state", {})
            state["caller"] = caller
            state["recheck"] = partial(self._find, headers, extend=True)
        return caller is not None

    async def _caller(self, headers: Headers, *, extend: bool) -> Caller | None:
        return await asyncio.to_thread(self._find, headers, extend=extend)

    def _find(self, headers: Headers, *, extend: bool) -> Caller | None:
        """Who sends these headers: by bearer key when there is one, else by session cookie."""
        authorization = headers.get("authorization")
        if authorization is not None:
            scheme, _, key = authorization.partition(" ")
            return self._access.caller_of_key(key.strip()) if scheme.lower() == "bearer" else None
        for token in cookies(headers, self._cookie)[:4]:
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
    """Whether a request needs no session: sign-in, health, icon, and the static assets of pages."""
    path, method = scope["path"], scope["method"]
    if method == "POST":
        return bool(path == "/session")
    return method in SAFE_METHODS and (path in OPEN_PATHS or ASSETS.match(path) is not None)


def _mapped(scope: Scope) -> Scope:
    """The scope with `/api/v1/...` and a trailing slash of an API path in their one plain form."""
    path, raw = scope["path"], scope.get("raw_path") or quote(scope["path"]).encode()
    if path == "/api/v1" or path.startswith("/api/v1/"):
        path, raw = path[4:], raw.removeprefix(b"/api")
    if API.match(path) and path.endswith("/"):
        path, raw = path.rstrip("/"), raw.rstrip(b"/")
    return {**scope, "path": path, "raw_path": raw}


def _unknown(scope: Scope, headers: Headers) -> Response:
    """What a stranger gets: pages lead to the sign-in page, everything else is 401."""
    path = scope["path"]
    page = not (API.match(path) or path.startswith("/_nicegui") or path == "/session")
    if not page or scope["method"] not in {"GET", "HEAD"}:
        return _refused(
            401,
            "UNAUTHORIZED",
            "sign in, or send a valid key as Authorization: Bearer KEY",
            {"WWW-Authenticate": "Bearer"},
        )
    query = scope["query_string"].decode("latin-1")
    target = f"{path}?{query}" if query else path
    if headers.get("sec-fetch-site") == "cross-site":
        return moved(target)  # the strict cookie stays away when the link was clicked elsewhere
    return RedirectResponse(f"/sign-in?next={quote(target, safe='')}", status_code=303)


def moved(target: str) -> HTMLResponse:
    """A page that goes on to `target` by itself, so that the next request is this site's own."""
    address = quote(safe_next(target), safe="/?=&%:@,-._~+")
    return HTMLResponse(
        '<!doctype html><meta charset="utf-8"><title>Pawl</title>'
        f'<meta http-equiv="refresh" content="0;url={address}">',
        headers={"Cache-Control": "no-store"},
    )


def safe_next(value: str | None) -> str:
    """Where to go after sign-in: a path of this server, never another site; "/" when in doubt."""
    if value is None or not value.isprintable() or "\\" in value or len(value) > 2000:
        return "/"
    if not value.startswith("/") or value.startswith(("//", "/sign-in", "/session")):
        return "/"
    return value


def _refused(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"code": code, "message": message}, status_code=status, headers=headers)


def _with_headers(send: Send) -> Send:
    """A `send` that adds the security headers to every answer that does not set its own."""

    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return secured


def _json_not_found(scope: Scope, receive: Receive, send: Send) -> Send:
    """A `send` that turns a 404 that is not JSON into the API's own; the client reads JSON alone."""
    swallowing = False

    async def checked(message: Message) -> None:
        nonlocal swallowing
        if message["type"] == "http.response.start" and message["status"] == 404:
            kind = MutableHeaders(scope=message).get("content-type", "")
            if not kind.startswith("application/json"):
                swallowing = True
                answer = _refused(404, "NOT_FOUND", f"there is no {scope['path'][:200]} here")
                await answer(scope, receive, send)
        if not swallowing:
            await send(message)

    return checked
