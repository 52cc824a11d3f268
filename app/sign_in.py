"""The HTTP routes by which a browser signs in: password, key or one-time link, and signing out.

Sign-in is plain HTML over HTTP, because a cookie can only be set by an HTTP answer.
"""

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from app import throttle
from app.access import Access, cookie_name
from app.caller import Caller
from app.cli_approval import Approval, CliPage
from app.forms import fields_of, form_answer
from app.guard import cookies
from app.passwords import AT_ONCE
from app.refusals import moved, safe_next

NOT_KNOWN = {
    "link": "This link was used already or has expired. Ask for a new one on the machine.",
    "key": "This key is not known here. The owner's key is in the file owner.key of Pawl's home.",
    "password": "Name and password do not belong together.",
}


class Page(Protocol):
    """Draws the sign-in page as HTML; `error` says what went wrong and what to do."""

    def __call__(
        self, *, next_path: str, error: str | None, theme: str, base: str, by_password: bool
    ) -> str: ...


def routes(access: Access, *, port: int, page: Page, cli_page: CliPage) -> list[Route]:
    """`/sign-in` and `/session` for the server on `port`; put them before every other route."""
    approval = Approval(access=access, page=cli_page)
    door = _Door(
        access=access,
        cookie=cookie_name(port),
        page=page,
        approval=approval,
        hashing=ThreadPoolExecutor(AT_ONCE, thread_name_prefix="password"),
    )
    return [
        Route("/sign-in", door.show, methods=["GET"]),
        Route("/session", door.enter, methods=["POST"]),
        Route("/session", door.tell, methods=["GET"]),
        Route("/session/end", door.leave, methods=["POST"]),
        Route("/session/cli", approval.answer, methods=["POST"]),
    ]


@dataclass(kw_only=True, slots=True, frozen=True)
class _Door:
    access: Access
    cookie: str
    page: Page
    approval: Approval
    hashing: Executor  # threads of their own: a flood of passwords holds up nothing else

    async def show(self, request: Request) -> Response:
        """The form; with `?link=`, straight in; with `?cli_login=`, a command line's request."""
        query, base = request.query_params, request.state.base
        caller = await asyncio.to_thread(self._signed_in, request)
        grant_id = query.get("cli_login")
        if grant_id is not None:
            return await self._show_cli(request, caller, grant_id)
        target = safe_next(query.get("next"))
        if caller is not None:
            return RedirectResponse(target, status_code=303)
        if query.get("link") is None:
            return self._form(request, target, None)
        opened = await self._open(request, {"link": query["link"]})
        if isinstance(opened, _Refusal):
            return self._refuse(request, target, opened)
        return await self._let_in(request, moved(target, base), opened)

    async def enter(self, request: Request) -> Response:
        """The form was sent: a right password or key gives the cookie."""
        fields = await fields_of(request)
        target = safe_next(fields.get("next"))
        opened = await self._open(request, fields)
        if isinstance(opened, _Refusal):
            return self._refuse(request, target, opened)
        return await self._let_in(request, RedirectResponse(target, status_code=303), opened)

    async def tell(self, request: Request) -> Response:
        """Who is signed in; the guard has answered 401 to everyone else."""
        return JSONResponse({"actor": request.state.caller.actor})

    async def leave(self, request: Request) -> Response:
        """Sign out."""
        await self._end_sessions(request)
        answer = RedirectResponse("/sign-in", status_code=303)
        answer.delete_cookie(self.cookie, httponly=True, samesite="strict")
        return answer

    async def _show_cli(self, request: Request, caller: Caller | None, grant_id: str) -> Response:
        address = f"/sign-in?cli_login={grant_id}"
        if caller is not None:
            return await self.approval.show(request, caller, grant_id)
        if request.headers.get("sec-fetch-site") == "cross-site":
            return moved(address, request.state.base)  # comes back with the cookie, if there is one
        return self._form(request, safe_next(address), None)

    async def _open(self, request: Request, fields: dict[str, str]) -> "str | _Refusal":
        """A session's token for what was given, counted and made to wait as a try."""
        address = throttle.address(_address(request))
        name, password = fields.get("name", ""), fields.get("password", "")
        secret = (fields.get("link") or fields.get("key") or "").strip()
        kind = "link" if "link" in fields else "key" if "key" in fields else "password"
        if not (name and password if kind == "password" else secret):
            return _Refusal(kind=kind)
        account = throttle.account(name) if kind == "password" else None
        subjects = [subject for subject in (account, address) if subject]
        seconds = await asyncio.to_thread(self.access.throttle.begin, *subjects)
        if seconds:
            return _Refusal(kind=kind, seconds=seconds)
        if kind == "password":
            token = await asyncio.get_running_loop().run_in_executor(
                self.hashing, self.access.open_session_by_password, name, password
            )
        else:
            token = await asyncio.to_thread(self.access.open_session, secret)
        if token is None:
            return _Refusal(kind=kind)
        await asyncio.to_thread(self.access.throttle.succeeded, account, address)
        return token

    def _signed_in(self, request: Request) -> Caller | None:
        for token in cookies(request.headers, self.cookie)[:4]:
            caller = self.access.caller_of_session(token)
            if caller is not None:
                return caller
        return None

    async def _let_in(self, request: Request, answer: Response, token: str) -> Response:
        """Set the cookie; what the browser was signed in with before ends."""
        await self._end_sessions(request)
        secure = request.url.scheme == "https"
        answer.set_cookie(self.cookie, token, httponly=True, samesite="strict", secure=secure)
        return answer

    async def _end_sessions(self, request: Request) -> None:
        for token in cookies(request.headers, self.cookie)[:4]:
            await asyncio.to_thread(self.access.end_session, token)

    def _refuse(self, request: Request, target: str, refusal: "_Refusal") -> Response:
        if not refusal.seconds:
            return self._form(request, target, NOT_KNOWN[refusal.kind], status=401)
        wait = int(refusal.seconds) + 1
        text = f"Too many failed tries. Try again in {wait} s, or use a one-time link."
        answer = self._form(request, target, text, status=429)
        answer.headers["Retry-After"] = str(wait)
        return answer

    def _form(
        self, request: Request, target: str, error: str | None, *, status: int = 200
    ) -> HTMLResponse:
        html = self.page(
            next_path=target,
            error=error,
            theme=request.cookies.get("pawl_theme", "auto"),
            base=request.state.base,
            by_password=self.access.people.any_password(),
        )
        return form_answer(html, status)


@dataclass(kw_only=True, slots=True, frozen=True)
class _Refusal:
    """Why nobody was let in: what was given is wrong, or there were too many tries."""

    kind: str  # link | key | password
    seconds: float = 0.0


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
