"""The command line's way to the server: REST over HTTP, one request at a time, no retries."""

import json
import re
from typing import Any, Self
from urllib.parse import quote

import httpx

from app.cli.problem import Problem
from app.cli.target import Target, find_target

ANSWER_BYTES = 16 * 2**20
ERROR_BYTES = 8192
SECONDS = 30.0
CODE = re.compile(r"[A-Z0-9_]{1,128}")


def get(path: str, **query: Any) -> Any:
    """The JSON of one read."""
    with Door() as door:
        return door.get(path, **query)


def post(path: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON of one change."""
    with Door() as door:
        return door.post(path, body)


class Door:
    """One server, asked with one key."""

    def __init__(self, target: Target | None = None) -> None:
        self._target = target or find_target()
        # A proxy of the environment would get the key of a server that is on this machine.
        self._client = httpx.Client(
            headers=_headers(self._target),
            timeout=SECONDS,
            trust_env=not self._target.is_loopback,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a read; options that are None are left out."""
        given = {name: value for name, value in query.items() if value is not None}
        return self._ask("GET", path, params=given)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON of a change."""
        return self._ask("POST", path, content=json.dumps(body) if body is not None else None)

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            with self._client.stream(method, self._target.api + path, **options) as answer:
                raw = _read(answer, ANSWER_BYTES if answer.is_success else ERROR_BYTES)
        except httpx.TimeoutException:
            raise Problem("REQUEST_TIMEOUT") from None
        except (httpx.HTTPError, httpx.InvalidURL):
            raise Problem("NETWORK_ERROR") from None
        if not answer.is_success:
            raise _refusal(answer.status_code, raw)
        try:
            return json.loads(raw) if raw.strip() else None
        except ValueError:
            raise Problem("INVALID_RESPONSE", answer.status_code) from None


def part(text: str) -> str:
    """A name as one part of a path."""
    return quote(text, safe="")


def _headers(target: Target) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if target.key is not None:
        headers["Authorization"] = f"Bearer {target.key}"
    if target.workspace:
        headers["X-Workspace-Id"] = target.workspace
    if target.project:
        headers["X-Project-Id"] = target.project
    return headers


def _read(answer: httpx.Response, most: int) -> bytes:
    raw = b""
    for chunk in answer.iter_bytes():
        raw += chunk
        if len(raw) > most:
            raise Problem("INVALID_RESPONSE", answer.status_code)
    return raw


def _refusal(status: int, raw: bytes) -> Problem:
    """The problem that an answer without success stands for."""
    try:
        told = json.loads(raw)
    except ValueError:
        told = None
    told = told if isinstance(told, dict) else {}
    code, reason = told.get("code"), told.get("reason")
    if not isinstance(code, str) or not CODE.fullmatch(code):
        code = "INVALID_RESPONSE" if 300 <= status < 400 else "HTTP_ERROR"
    return Problem(code, status, reason if isinstance(reason, str) else None)
