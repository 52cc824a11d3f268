"""What the guard answers on its own, and what it adds to the answers of others."""

from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from app.arrival import API
from app.errors import BROKEN, ServiceError, Unauthorized
from app.openai_words import in_both

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


def refused(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """The API's error envelope."""
    return JSONResponse({"code": code, "message": message}, status_code=status, headers=headers)


def foreign_host(headers: Headers) -> JSONResponse:
    """421 to a Host that is not ours: a name that somebody points here is no way in."""
    named = ", ".join(headers.getlist("host"))[:80] or "(none)"
    return refused(
        421,
        "INVALID_REQUEST",
        f"this server does not answer to the host {named!r}; use 127.0.0.1 or localhost, or add "
        "the name to the setting allowed_hosts (run.py setting set allowed_hosts NAME)",
    )


def foreign_origin() -> JSONResponse:
    """403 to the page of another site."""
    return refused(
        403,
        "ACCESS_DENIED",
        "this request comes from another site; open the console under one address, or add the "
        "site to the setting allowed_origins (behind TLS: the proxy to trusted_proxies)",
    )


def too_many(seconds: float, what: str) -> JSONResponse:
    """429 with the time to wait."""
    wait = str(int(seconds) + 1)
    return refused(
        429, "RATE_LIMITED", f"too many {what}; wait {wait} s, then go on", {"Retry-After": wait}
    )


def unknown(scope: Scope, headers: Headers) -> Response:
    """What a stranger gets: pages lead to the sign-in page, everything else is 401."""
    path, base = scope["path"], scope["state"]["base"]
    page = not (API.match(path) or path.startswith("/_nicegui") or path == "/session")
    if not page or scope["method"] not in {"GET", "HEAD"}:
        told = Unauthorized("sign in, or send a valid key as Authorization: Bearer KEY")
        body = in_both(path, told.status, told.body())
        return JSONResponse(body, told.status, headers={"WWW-Authenticate": "Bearer"})
    query = scope["query_string"].decode("latin-1")
    target = f"{path}?{query}" if query else path
    if headers.get("sec-fetch-site") == "cross-site":
        return moved(target, base)  # the strict cookie stays away when the link was elsewhere
    return RedirectResponse(f"{base}/sign-in?next={quote(target, safe='')}", status_code=303)


def moved(target: str, base: str = "") -> HTMLResponse:
    """A page that goes on to `target` by itself, so that the next request is this site's own."""
    address = base + quote(safe_next(target), safe="/?=&%:@,-._~+")
    return HTMLResponse(
        '<!doctype html><meta charset="utf-8"><title>Pawl</title>'
        f'<meta http-equiv="refresh" content="0;url={address}">',
        headers={"Cache-Control": "no-store"},
    )


def safe_next(value: str | None) -> str:
    """Where to go after sign-in: a path of this server, never another site; "/" when in doubt."""
    if value is None or not value.isprintable() or "\\" in value or len(value) > 2000:
        return "/"
    if value.startswith("/sign-in?cli_login="):
        return value
    if not value.startswith("/") or value.startswith(("//", "/sign-in", "/session")):
        return "/"
    return value


def with_headers(send: Send) -> Send:
    """A `send` that adds the security headers to every answer that does not set its own."""

    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return secured


def in_json(scope: Scope, receive: Receive, send: Send) -> Send:
    """A `send` that turns a 404 or 500 that is not JSON into the API's own; the client reads JSON
    alone."""
    swallowing = False
    told = {
        404: ("NOT_FOUND", f"there is no {scope['path'][:200]} here"),
        500: (ServiceError.code, BROKEN),
    }

    async def checked(message: Message) -> None:
        nonlocal swallowing
        if message["type"] == "http.response.start" and message["status"] in told:
            kind = MutableHeaders(scope=message).get("content-type", "")
            if not kind.startswith("application/json"):
                swallowing = True
                status = message["status"]
                await refused(status, *told[status])(scope, receive, send)
        if not swallowing:
            await send(message)

    return checked
