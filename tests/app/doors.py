"""The doors of one home without a server: sign-in, guard, and a few routes behind them."""

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from app import sign_in
from app.access import Access
from app.guard import Guard
from app.rest import cli_sign_in
from pages.cli_sign_in_page import cli_sign_in_html
from pages.sign_in_page import sign_in_html

PORT = 8710
HOST = f"127.0.0.1:{PORT}"
BASE = f"http://{HOST}"
OWN = {"Origin": BASE}


async def echo(request: Request) -> JSONResponse:
    """Who asks, from where, for what."""
    caller = request.state.caller
    return JSONResponse(
        {
            "actor": caller.actor,
            "capabilities": sorted(caller.capabilities),
            "client": request.client.host if request.client else None,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "prefix": request.headers.get("x-forwarded-prefix"),
        }
    )


def doors(access: Access, inner: ASGIApp | None = None) -> Guard:
    """The guard around sign-in and a few routes that answer with `echo`, or around `inner`."""
    methods = ["GET", "POST", "PUT", "DELETE"]
    routes = [
        *sign_in.routes(access, port=PORT, page=sign_in_html, cli_page=cli_sign_in_html),
        *cli_sign_in.routes(access.grants),
        *(
            Route(path, echo, methods=methods)
            for path in ("/", "/runs/{run}", "/v1/me", "/v1/agent-runs/rsi/mcp", "/v1/run/live")
        ),
    ]
    return Guard(inner or Starlette(routes=routes), access=access, port=PORT)


def browser(guard: Guard, address: str = "127.0.0.1", base: str = BASE) -> httpx.AsyncClient:
    """A client at an address of its own."""
    transport = httpx.ASGITransport(guard, client=(address, 50000))
    return httpx.AsyncClient(transport=transport, base_url=base)


async def sign_in_as(client: httpx.AsyncClient, name: str, password: str) -> httpx.Response:
    """Send the sign-in form."""
    return await client.post("/session", data={"name": name, "password": password}, headers=OWN)
