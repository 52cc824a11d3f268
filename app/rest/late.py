"""The REST door in the web server: its routes are made after the first page, or by the first request.

Making them takes as long as a fifth of the server's start, and no page needs them.
"""

import asyncio
import threading

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from app.rest import downloads
from app.service import Service


def mount(web: Starlette, service: Service) -> "RestDoor":
    """Hang the door into the web server, behind every route that is there already."""
    web.router.redirect_slashes = False  # the client takes a redirect for an error
    door = RestDoor(service)
    web.router.routes.extend(downloads.routes(service))
    web.mount("/v1", door)
    return door


class RestDoor:
    """Answers below `/v1`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._api: ASGIApp | None = None
        self._making = threading.Lock()

    def open(self) -> None:
        """Make the application behind the door, unless it is there."""
        from app.rest.api import make_api
        from app.rest.paths import KeptSlashes

        with self._making:
            if self._api is None:
                self._api = KeptSlashes(make_api(self._service))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._api is None:
            await asyncio.to_thread(self.open)
        assert self._api is not None
        await self._api(scope, receive, send)
