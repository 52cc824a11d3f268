"""JSON bodies, read after caller and run are known: who may not act learns nothing of a body."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from app.arrival import LARGEST_BODY
from app.steering import is_unicode

LARGEST_WITH_ROWS = 8 * 1024 * 1024  # bytes


async def json_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object of at most 256 KiB; an empty body is an empty object."""
    return _parsed(await _read(request, LARGEST_BODY))


async def large_json_object(request: Request) -> dict[str, Any]:
    """The same of at most 8 MiB, where somebody may send rows."""
    raw = await _read(request, LARGEST_WITH_ROWS)
    return await run_in_threadpool(_parsed, raw)


async def _read(request: Request, most: int) -> bytes:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > most:
            raise HTTPException(413, f"send at most {most} bytes")
    return bytes(raw)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode() or "{}"
        body = json.loads(text, parse_constant=_no_number)
        is_whole = "\\ud" not in text.lower() or is_unicode(json.dumps(body, ensure_ascii=False))
    except (ValueError, RecursionError) as error:
        raise _refused(f"this is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise _refused("send a JSON object")
    if not is_whole:
        raise _refused("there is half a character in a text")
    return body


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


Body = Annotated[dict[str, Any], Depends(json_object)]
LargeBody = Annotated[dict[str, Any], Depends(large_json_object)]


def described(schema: Mapping[str, Any], example: Mapping[str, Any]) -> dict[str, Any]:
    """What the route's documentation says of its body."""
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def _refused(message: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body",), "msg": message, "type": "json"}])
