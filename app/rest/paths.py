"""Path parameters as they were sent: an encoded slash belongs to a name and parts no path."""

from typing import Annotated
from urllib.parse import quote, unquote_to_bytes

from pydantic import AfterValidator
from starlette.types import ASGIApp, Receive, Scope, Send


class KeptSlashes:
    """Gives the application paths in which every encoded slash and percent sign is still encoded."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            scope = {**scope, "path": "/".join(_kept(part) for part in raw.split(b"/"))}
        await self._app(scope, receive, send)


def _kept(part: bytes) -> str:
    text = unquote_to_bytes(part).decode("utf-8", "replace")
    return text.replace("%", "%25").replace("/", "%2F")


def _decoded(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")


Name = Annotated[str, AfterValidator(_decoded)]
