"""The HTTP routes by which a browser signs in: a form for the key, a one-time link, signing out.

Sign-in is plain HTML over HTTP, because a cookie can only be set by an HTTP answer.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from app.access import Access, cookie_name
from app.guard import cookies, moved, safe_next

FORM_BYTES = 4096
FREE_FAILURES = 5
LONGEST_WAIT = 60.0
REMEMBERED = 1000  # addresses


class Page(Protocol):
    """Draws the sign-in page as HTML; `error` says what went wrong and what to do."""

    def __call__(self, *, next_path: str, error: str | None, theme: str) -> str: ...


def routes(access: Access, *, port: int, page: Page) -> list[Route]:
    """`/sign-in` and `/session` for the server on `port`; put them before every other route."""
    door = _Door(access=access, cookie=cookie_name(port), page=page, throttle=Throttle())
    return [
        Route("/sign-in", door.show, methods=["GET"]),
        Route("/session", door.enter, methods=["POST"]),
        Route("/session", door.tell, methods=["GET"]),
        Route("/session/end", door.leave, methods=["POST"]),
    ]


class Throttle:
    """Makes an address that keeps failing wait: after 5 failures 1 s, then twice as long each."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}

    def wait(self, address: str) -> float:
        """Seconds until this address may try again, 0 when it may now."""
        count, last = self._failures.get(address, (0, 0.0))
        if count < FREE_FAILURES:
            return 0.0
        delay = min(LONGEST_WAIT, 2.0 ** (count - FREE_FAILURES))
        return max(0.0, last + delay - time.monotonic())

    def failed(self, address: str) -> None:
        """Note one failure."""
        count, _ = self._failures.pop(address, (0, 0.0))
        self._failures[address] = (count + 1, time.monotonic())
        while len(self._failures) > REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, address: str) -> None:
        """Forget the failures of an address."""
        self._failures.pop(address, None)


@dataclass(kw_only=True, slots=True, frozen=True)
class _Door:
    access: Access
    cookie: str
    page: Page
    throttle: Throttle

    async def show(self, request: Request) -> Response:
        """The form; or, with `?link=`, straight in."""
        target = safe_next(request.query_params.get("next"))
        if await asyncio.to_thread(self._is_signed_in, request):
            return RedirectResponse(target, status_code=303)
        link = request.query_params.get("link")
        if link is None:
            return self._form(request, target, None)
        token = await self._open(request, link)
        if token is None:
            return self._form(request, target, self._refusal(request, "This link"), status=401)
        return self._signed_in(request, moved(target), token)

    async def enter(self, request: Request) -> Response:
        """The form was sent: a right key gives the cookie."""
        fields = await _form_fields(request)
        target = safe_next(fields.get("next"))
        seconds = self.throttle.wait(_address(request))
        if seconds:
            text = f"Too many failed tries. Try again in {seconds:.0f} s."
            return self._form(request, target, text, status=429, retry_after=seconds)
        token = await self._open(request, fields.get("key", "").strip())
        if token is None:
            return self._form(request, target, self._refusal(request, "This key"), status=401)
        return self._signed_in(request, RedirectResponse(target, status_code=303), token)

    async def tell(self, request: Request) -> Response:
        """Who is signed in; the guard has answered 401 to everyone else."""
        return JSONResponse({"actor": request.state.caller.actor})

    async def leave(self, request: Request) -> Response:
        """Sign out."""
        for token in cookies(request.headers, self.cookie):
            await asyncio.to_thread(self.access.end_session, token)
        answer = RedirectResponse("/sign-in", status_code=303)
        answer.delete_cookie(self.cookie, httponly=True, samesite="strict")
        return answer

    async def _open(self, request: Request, secret: str) -> str | None:
        address = _address(request)
        if not secret or self.throttle.wait(address):
            return None
        token = await asyncio.to_thread(self.access.open_session, secret)
        if token is None:
            self.throttle.failed(address)
        else:
            self.throttle.succeeded(address)
        return token

    def _refusal(self, request: Request, what: str) -> str:
        if self.throttle.wait(_address(request)) > 1:
            return "Too many failed tries. Wait a minute, then try again."
        if what == "This link":
            return "This link was used already or has expired. Ask for a new one on the machine."
        return (
            "This key is not known here. The owner's key is in the file owner.key of Pawl's home."
        )

    def _is_signed_in(self, request: Request) -> bool:
        tokens = cookies(request.headers, self.cookie)
        return any(self.access.caller_of_session(token) is not None for token in tokens[:4])

    def _signed_in(self, request: Request, answer: Response, token: str) -> Response:
        answer.set_cookie(
            self.cookie,
            token,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def _form(
        self,
        request: Request,
        target: str,
        error: str | None,
        *,
        status: int = 200,
        retry_after: float = 0.0,
    ) -> Response:
        theme = request.cookies.get("pawl_theme", "auto")
        html = self.page(next_path=target, error=error, theme=theme)
        answer = HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-store"})
        # Under no-referrer the browser would send the form with "Origin: null".
        answer.headers["Referrer-Policy"] = "same-origin"
        if retry_after:
            answer.headers["Retry-After"] = str(int(retry_after) + 1)
        return answer


async def _form_fields(request: Request) -> dict[str, str]:
    """The fields of a form of at most 4 KiB; of a longer one, none."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"))
    return {name: values[-1] for name, values in fields.items()}


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
