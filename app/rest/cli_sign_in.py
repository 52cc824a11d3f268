"""Browser sign-in of a command line over HTTP: it starts, polls and cancels without a key."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.arrival import own_origin
from app.cli_grants import EXPIRED, GRANT_SECONDS, Answer, CliGrants, TooManyWaiting
from app.errors import AccessDenied, Conflict
from app.rate import Rate
from app.refusals import refused, too_many
from app.steering import is_unicode

BODY_BYTES = 8192
DIGEST = re.compile(r"[0-9a-f]{64}")
INTERVAL = 1  # seconds between two polls

Step = Callable[[Request, dict[str, Any]], Awaitable[JSONResponse]]


def routes(grants: CliGrants) -> list[Route]:
    """The three routes; nobody is signed in on them."""
    door = _Door(
        grants=grants,
        starts=Rate(burst=20, per_second=0.5),
        polls=Rate(burst=200, per_second=20),
    )
    steps: dict[str, Step] = {"start": door.start, "poll": door.poll, "cancel": door.cancel}
    return [
        Route(f"/v1/auth/cli/{name}", _with_body(step), methods=["POST"])
        for name, step in steps.items()
    ]


@dataclass(kw_only=True, slots=True, frozen=True)
class _Door:
    grants: CliGrants
    starts: Rate
    polls: Rate

    async def start(self, request: Request, body: dict[str, Any]) -> JSONResponse:
        """Note the request; where the person goes, and for how long it stands."""
        address = _address(request)
        if wait := self.starts.take(address):
            return too_many(wait, "sign-ins")
        hashes = {name: body.get(name) for name in ("key_hash", "poll_hash", "code_hash")}
        for name, value in hashes.items():
            if not isinstance(value, str) or not DIGEST.fullmatch(value):
                return refused(422, "INVALID_REQUEST", f"{name}: give 64 lower-case hex digits")
        try:
            grant_id = await asyncio.to_thread(
                lambda: self.grants.start(address=address, **hashes)  # type: ignore[arg-type]
            )
        except TooManyWaiting as full:
            return refused(429, "RATE_LIMITED", str(full), {"Retry-After": "60"})
        except Conflict as known:
            return refused(409, "CONFLICT", str(known))
        origin = own_origin(request.scope, request.headers["host"])
        return JSONResponse(
            {
                "grant_id": grant_id,
                "verification_uri": f"{origin}/sign-in?cli_login={grant_id}",
                "interval": INTERVAL,
                "expires_in": GRANT_SECONDS,
            }
        )

    async def poll(self, request: Request, body: dict[str, Any]) -> JSONResponse:
        """How the request stands."""
        return await self._asked_by_owner(request, body, self.grants.poll)

    async def cancel(self, request: Request, body: dict[str, Any]) -> JSONResponse:
        """The command line has given up."""
        return await self._asked_by_owner(request, body, self.grants.cancel)

    async def _asked_by_owner(
        self, request: Request, body: dict[str, Any], act: Callable[[str, str], Answer]
    ) -> JSONResponse:
        if wait := self.polls.take(_address(request)):
            return too_many(wait, "polls")
        grant_id, token = body.get("grant_id"), body.get("poll_token")
        if not isinstance(grant_id, str) or not isinstance(token, str):
            return refused(422, "INVALID_REQUEST", "give grant_id and poll_token")
        try:
            answer = await asyncio.to_thread(act, grant_id, token)
        except AccessDenied as error:
            return refused(403, "ACCESS_DENIED", str(error))
        if answer.status == EXPIRED:
            return refused(410, "LOGIN_EXPIRED", "this sign-in is older than ten minutes")
        if answer.status != "approved":
            return JSONResponse({"status": answer.status})
        return JSONResponse(
            {
                "status": "approved",
                "workspace_id": answer.workspace_id,
                "project_id": answer.project_id,
            }
        )


def _with_body(step: Step) -> Callable[[Request], Awaitable[JSONResponse]]:
    """A route that reads a small JSON object first; a page of another site cannot send one."""

    async def route(request: Request) -> JSONResponse:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return refused(415, "INVALID_REQUEST", "send Content-Type: application/json")
        raw = b""
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > BODY_BYTES:
                return refused(413, "REQUEST_TOO_LARGE", f"send at most {BODY_BYTES} bytes")
        try:
            body = json.loads(raw)
            fits = isinstance(body, dict) and is_unicode(json.dumps(body, ensure_ascii=False))
        except (ValueError, RecursionError):
            fits = False
        if not fits:
            return refused(422, "INVALID_REQUEST", "send a JSON object of whole characters")
        return await step(request, body)

    return route


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
