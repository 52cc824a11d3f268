"""Brings a request into the one form that the application knows, however it was sent here.

Forwarded headers count only from a configured proxy, and no others go further than this. A path
loses the configured base path, `/api/v1` becomes `/v1`, and API paths end without a slash.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.types import Scope

from app.settings import Network, Proxy

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
API = re.compile(r"/(v1|api|mcp)(/|$)")
LARGEST_BODY = 256 * 1024  # bytes; the longest brief takes 48,000 in its longest spelling
MCP_PATH = "/v1/agent-runs/rsi/mcp"
PREFIX_HEADER = b"x-forwarded-prefix"  # what NiceGUI puts before every address in a page
FORWARDED = (b"x-forwarded-", b"forwarded")


def arrived(scope: Scope, network: Network) -> Scope:
    """The scope as the application gets it: true client and scheme, plain path, own headers."""
    headers = Headers(scope=scope)
    told = [(name, value) for name, value in scope["headers"] if not name.startswith(FORWARDED)]
    if network.root_path:
        told.append((PREFIX_HEADER, network.root_path.encode()))
    path, raw = _plain_path(scope, network.root_path)
    plain = {**scope, "headers": told, "path": path, "raw_path": raw}
    if _is_proxy(scope.get("client"), network.proxies):
        plain |= _forwarded(scope, headers, network.proxies)
    plain["state"] = {**scope.get("state", {}), "base": network.root_path}
    return plain


def host_of(headers: Headers, hosts: frozenset[str]) -> str | None:
    """The Host that a request names, with its port; None unless it is one of ours."""
    named = headers.getlist("host")
    match = HOST.fullmatch(named[0].lower()) if len(named) == 1 else None
    return match[0] if match is not None and match[1] in hosts else None


def own_origin(scope: Scope, host: str) -> str:
    """The origin of this server's own pages, as the browser names it: scheme, host and port."""
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    return f"{scheme}://{host}"


def _plain_path(scope: Scope, base: str) -> tuple[str, bytes]:
    path: str = scope["path"]
    raw: bytes = scope.get("raw_path") or quote(path).encode()
    for prefix, put in ((base, ""), ("/api/v1", "/v1")):
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            path = put + path[len(prefix) :] or "/"
            raw = put.encode() + raw.removeprefix(prefix.encode()) or b"/"
    if API.match(path) and path.endswith("/"):
        path, raw = path.rstrip("/"), raw.rstrip(b"/")
    return path, raw


def _forwarded(scope: Scope, headers: Headers, proxies: Iterable[Proxy]) -> dict[str, Any]:
    """Client and scheme as the proxy saw them; of several addresses the last that is no proxy."""
    found: dict[str, Any] = {}
    proto = headers.get("x-forwarded-proto", "").strip().lower()
    if proto in {"http", "https"}:
        socket = scope["type"] == "websocket"
        found["scheme"] = proto.replace("http", "ws") if socket else proto
    for address in reversed(",".join(headers.getlist("x-forwarded-for")).split(",")):
        client = (address.strip(), 0)
        if not _is_address(client[0]):
            break
        found["client"] = client
        if not _is_proxy(client, proxies):
            break
    return found


def _is_proxy(client: Any, proxies: Iterable[Proxy]) -> bool:
    if not client or not proxies or not _is_address(client[0]):
        return False
    address = ipaddress.ip_address(client[0])
    return any(address in network for network in proxies)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
