"""Refusals on the routes of OpenAI's API: this server's envelope with OpenAI's `error` beside it."""

import re
from typing import Any

ROUTES = re.compile(r"(/api)?/v1/(job/[^/]+/[Ii]nference/)?((chat/)?completions|models(/.*)?)")


def in_both(path: str, status: int, body: dict[str, Any]) -> dict[str, Any]:
    """The body of a refusal, with `error` where a client of OpenAI's API may read it."""
    if not ROUTES.fullmatch(path):
        return body
    kind = "invalid_request_error" if status < 500 else "server_error"
    code = body.get("reason") or str(body["code"]).lower()
    return {**body, "error": {"message": body["message"], "type": kind, "code": code}}
