"""Serves pages and doors as one web application, behind the guard.

Nothing of NiceGUI is loaded before it serves.
"""

import functools
import gc
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from socket import socket
from typing import Any

from starlette.routing import Route

from app import sign_in
from app.access import Access
from app.arrival import MCP_PATH
from app.guard import Guard
from app.health import Check, readyz
from app.logs import keep_web_log
from app.mcp import McpDoor
from app.rest import cli_sign_in, late
from app.service import Service
from app.serving import hush_disconnects, load_socket_server
from app.stopping import Stopping


@dataclass(kw_only=True, slots=True, frozen=True)
class Front:
    """What the web application is put together from.

    `ready` is what /readyz asks for: what is needed, and what is only told.
    """

    service: Service
    access: Access
    port: int
    allowed_hosts: frozenset[str]
    ready: tuple[Mapping[str, Check], Mapping[str, Check]]


def serve_console(front: Front, listener: socket, stopping: Stopping) -> None:
    """Serve the pages and doors behind the guard until SIGTERM or Ctrl-C."""
    load_socket_server()
    from nicegui import app as web
    from nicegui import ui
    from nicegui.server import Server

    from pages import site

    # NiceGUI passes no socket on; ours has been held since before there was an engine.
    Server.run = functools.partialmethod(Server.run, sockets=[listener])  # type: ignore[assignment]
    open_rest = add_routes(web, front)

    def after_the_first_page() -> None:
        open_rest()
        site.load_the_rest()
        gc.freeze()
        gc.enable()

    def take_signals() -> None:  # back from the web server, which has just put its own handlers in
        stopping.gently = web.shutdown
        stopping.take_over()
        if stopping.asked:
            web.shutdown()

    web.on_startup(lambda: put_guard_around(web, front))
    web.on_startup(take_signals)
    web.on_startup(lambda: later(after_the_first_page))
    ui.run(
        host=listener.getsockname()[0],
        port=front.port,
        reload=False,
        show=False,
        show_welcome_message=False,
        timeout_graceful_shutdown=2,
        proxy_headers=False,  # the guard reads them, from configured proxies alone
        **site.OPTIONS,
    )


def add_routes(web: Any, front: Front) -> Callable[[], None]:
    """Pages, ways in, MCP, health and REST; what comes back makes REST's routes."""
    from pages import site
    from pages.cli_sign_in_page import cli_sign_in_html
    from pages.nothing import nothing_here
    from pages.sign_in_page import sign_in_html

    service, access = front.service, front.access
    site.register(service, access)
    web.add_exception_handler(404, nothing_here(service, access))
    ways_in = sign_in.routes(access, port=front.port, page=sign_in_html, cli_page=cli_sign_in_html)
    mcp_door = McpDoor(service)
    mcp = Route(MCP_PATH, mcp_door)
    for route in [*ways_in, *cli_sign_in.routes(access.grants), mcp]:
        web.router.routes.insert(0, route)
    web.on_shutdown(mcp_door.close)
    web.get("/healthz")(lambda: {"status": "ok"})
    web.get("/readyz")(readyz(*front.ready))
    return late.mount(web, service).open  # behind every other route below /v1


def put_guard_around(web: Any, front: Front) -> None:
    """The guard goes around everything, so after NiceGUI has built its own layers."""
    hush_disconnects()
    keep_web_log()
    assert web.middleware_stack is not None
    web.middleware_stack = Guard(
        web.middleware_stack,
        access=front.access,
        port=front.port,
        allowed_hosts=front.allowed_hosts,
    )


def later(call: Callable[[], object]) -> None:
    """Call it in a second, in a thread of its own."""
    timer = threading.Timer(1.0, call)
    timer.daemon = True
    timer.start()
