"""What routes answer when something is refused: one table for refusals and framework errors alike."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette._utils import get_route_path
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from app import errors
from app.errors import BROKEN, ServiceError, shown
from app.openai_words import in_both
from app.paging import NO_CURSOR
from data.disk import is_full
from data.store import StoreClosed

LOOPS = "/agent-runs/rsi/"
FRAMEWORK = {  # status -> code, for what the framework refuses by itself
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    413: "REQUEST_TOO_LARGE",
}
FIELDS: dict[str, type[errors.InvalidRequest]] = {
    "limit": errors.InvalidLimit,
    "tail": errors.InvalidLimit,
    "cursor": errors.InvalidCursor,
    "type": errors.InvalidJobType,
    "status": errors.InvalidJobStatus,
}


class Refusal(BaseModel):
    """The error envelope: programs act on `code`, people read `message`."""

    code: str = Field(pattern="^[A-Z0-9_]{1,128}$", examples=["RSI_CONFLICT"])
    message: str = Field(max_length=1000, examples=["run sums-1 exists already; choose another id"])
    reason: str | None = Field(default=None, examples=["PRICE_UNKNOWN"])


MEANINGS = {
    400: "the version cannot answer what was asked as it was asked",
    401: "no key, or one that is unknown, expired or revoked",
    403: "the caller lacks the capability, or named a foreign scope",
    404: "there is no such thing, or it is not visible to the caller",
    409: "the state does not allow it",
    413: "the body is too large",
    415: "a change by cookie needs Content-Type: application/json",
    421: "the Host is not one of this server's",
    422: "a field was refused; the message names it",
    429: "too many requests; wait as long as Retry-After says",
    503: "nothing can be taken up at the moment",
}
ALWAYS = (401, 403, 415, 421, 422, 429, 503)


def refusals(*more: int) -> dict[int | str, dict[str, Any]]:
    """The documented error answers of a route, those that every route has and `more`."""
    told = sorted({*ALWAYS, *more})
    return {status: {"model": Refusal, "description": MEANINGS[status]} for status in told}


def register(api: FastAPI) -> None:
    """Answer every error of the application in the one envelope."""
    api.add_exception_handler(ServiceError, _refused)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _framework)
    api.add_exception_handler(StoreClosed, _closing)
    api.add_exception_handler(Exception, _broken)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ServiceError)
    return JSONResponse(in_both(request.scope["path"], error.status, error.body()), error.status)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """A field that the framework refused, as the service would have refused it."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    place = [str(part) for part in fault["loc"]]
    refusal = (FIELDS.get(place[-1]) if place[0] == "query" else None) or _by_path(request)
    said = NO_CURSOR if refusal is errors.InvalidCursor else str(fault["msg"])
    told = f"{place[-1]}: {said}" if len(place) > 1 else said
    return await _refused(request, refusal(told))


def _by_path(request: Request) -> type[errors.InvalidRequest]:
    path: str = request.scope["path"]
    if path.endswith("/steer"):
        return errors.InvalidSteer
    if path.endswith("/directives"):
        return errors.InvalidDirective
    return errors.InvalidRequest if LOOPS in path else errors.InvalidField


async def _framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = error.status_code
    told, headers = str(error.detail), error.headers
    if status == 404:
        told = f"there is no {request.scope['path']} here"
    elif status == 405:
        headers = {"Allow": _methods(request)}
        told = f"{request.method} does nothing here; there is {headers['Allow']}"
    code = FRAMEWORK.get(status, "INVALID_REQUEST")
    body = in_both(request.scope["path"], status, {"code": code, "message": shown(told)})
    return JSONResponse(body, status, headers=headers)


def _methods(request: Request) -> str:
    """The methods that a path has; the framework by itself tells those of one route."""
    path = get_route_path(request.scope)
    found = [one for one in request.app.state.routes if one.path_regex.match(path)]
    # The first one names the path: a fixed one comes before those with a parameter in its place.
    methods = [one.methods for one in found if one.path == found[0].path]
    return ", ".join(sorted(set().union(*methods)))


async def _closing(_: Request, error: Exception) -> JSONResponse:
    refusal = errors.Unavailable("this server is ending; start it again, then go on")
    return JSONResponse(refusal.body(), refusal.status)


async def _broken(request: Request, error: Exception) -> JSONResponse:
    """A fault of ours, or a full disk; people find the details in the server's log."""
    refusal = ServiceError(BROKEN)
    if is_full(error):
        refusal = errors.Unavailable("the disk is full: free some space, then try again")
    return JSONResponse(refusal.body(), refusal.status)
