"""The MCP endpoint as an ASGI application: stateless Streamable HTTP with JSON answers.

The official SDK speaks the protocol, in the era with a handshake and in the one without; it is
loaded when the first request comes, since most servers never see one. Host, Origin, method and key
were checked by the guard.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from app import errors
from app.arrival import LARGEST_BODY
from app.errors import ServiceError
from app.refusals import refused
from app.service import Service
from data.disk import is_full
from data.store import StoreClosed

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp_types import CallToolResult
    from mcp_types import Tool as ToolShape

    from app.mcp_tools import Tool

log = logging.getLogger(__name__)

BARE = {  # a refusal that the SDK sends without JSON -> what is sent instead
    400: (415, "INVALID_REQUEST", "send Content-Type: application/json"),
    406: (406, "INVALID_REQUEST", "accept application/json"),
    413: (413, "REQUEST_TOO_LARGE", f"send at most {LARGEST_BODY} bytes"),
}
BROKEN = (ServiceError.status, ServiceError.code, errors.BROKEN)


class McpDoor:
    """Answers MCP's messages with what the service answers; `close` ends it with the server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._opening = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._opening:
            if self._manager is None:
                await self._open()
        assert self._manager is not None
        # The web server leaves the blanks after a header's value, and the SDK compares values.
        headers = [(name, value.strip()) for name, value in scope["headers"]]
        scope = {**scope, "headers": headers}
        await self._manager.handle_request(scope, receive, _in_json(scope, receive, send))

    async def close(self) -> None:
        """End what serves requests."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _open(self) -> None:
        """Load the SDK, which takes a second, beside the event loop, then start serving."""
        manager = await asyncio.to_thread(_manager, self._service)
        is_open = asyncio.Event()

        async def serve() -> None:  # the SDK's task group must be left by the task that entered it
            async with manager.run():
                is_open.set()
                await asyncio.Event().wait()

        self._task = asyncio.create_task(serve())
        await is_open.wait()
        self._manager = manager


def _manager(service: Service) -> "StreamableHTTPSessionManager":
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings

    return StreamableHTTPSessionManager(
        _server(service),
        json_response=True,
        stateless=True,
        max_request_body_size=LARGEST_BODY,
        # The guard has checked Host and Origin, by settings that may change while the server runs.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )


def _server(service: Service) -> "Server[Any]":
    import mcp_types as types
    from mcp.server.caching import CacheHint
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    from app.mcp_tools import TOOLS

    shapes = [_shape(tool) for tool in TOOLS.values()]
    schemas = {tool.name: tool.schema for tool in TOOLS.values()}

    async def list_tools(_context: Any, _page: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=shapes)

    async def call_tool(
        context: ServerRequestContext[Any], asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if asked.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {asked.name[:100]!r}")
        return await _answer(service, context.request, asked.name, asked.arguments or {})

    return Server(
        "pawl",
        version="0.1.0",
        title="Pawl",
        website_url=None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=schemas.get,
        cache_hints={"tools/list": CacheHint(ttl_ms=60_000, scope="public")},
    )


def _shape(tool: "Tool") -> "ToolShape":
    from mcp_types import Tool as ToolShape
    from mcp_types import ToolAnnotations

    hints = ToolAnnotations(
        read_only_hint=tool.only_reads,
        destructive_hint=tool.method == "control",
        idempotent_hint=tool.only_reads,
        open_world_hint=False,
    )
    return ToolShape(
        name=tool.name, description=tool.about, input_schema=tool.schema, annotations=hints
    )


async def _answer(service: Service, request: Any, name: str, given: Any) -> "CallToolResult":
    """A tool's answer, or its refusal: both are results, with the body that REST would send."""
    from mcp_types import CallToolResult, TextContent

    from app.mcp_tools import call

    def ask() -> Any:  # the service waits for the database
        headers = request.headers
        caller = request.state.caller
        service.check_scope(caller, headers.get("x-workspace-id"), headers.get("x-project-id"))
        return call(service, caller, name, given).model_dump(mode="json")

    try:
        body, refusal = await asyncio.to_thread(ask), None
    except Exception as error:  # noqa: BLE001 - whatever broke, the caller gets an answer
        body, refusal = None, _refusal(error)
    if refusal is None:
        text = json.dumps(body, ensure_ascii=False)
    else:
        text = f"{refusal['code']}: {refusal['message']}"
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=refusal or body,
        is_error=refusal is not None,
    )


def _refusal(error: Exception) -> dict[str, Any]:
    """The envelope of a refusal; what broke is for the log alone."""
    if isinstance(error, ServiceError):
        return error.body()
    if isinstance(error, StoreClosed):
        return errors.Unavailable("this server is ending; start it again, then go on").body()
    if is_full(error):
        return errors.Unavailable("the disk is full: free some space, then try again").body()
    log.error("a tool broke", exc_info=error)
    return ServiceError(errors.BROKEN).body()


def _in_json(scope: Scope, receive: Receive, send: Send) -> Callable[[Message], Awaitable[None]]:
    """A `send` that turns the SDK's bare refusals into the API's envelope."""
    is_told = False

    async def checked(message: Message) -> None:
        nonlocal is_told
        if message["type"] == "http.response.start" and message["status"] >= 400:
            kind = MutableHeaders(scope=message).get("content-type", "")
            if not kind.startswith("application/json"):
                is_told = True
                await refused(*BARE.get(message["status"], BROKEN))(scope, receive, send)
        if not is_told:
            await send(message)

    return checked
