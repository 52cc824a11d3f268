"""Which addresses a remote model may have: resolved once, checked, and connected to as checked."""

import ipaddress
import socket
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
    )
)


class AddressRefused(Exception):
    """A model's address is one that Pawl does not connect to; the text says why and what to do."""


def http_client(
    base_url: str, *, local: bool, seconds: float, connect: float, whole: float
) -> "httpx2.Client":
    """A client for one model: no redirects, no proxy, nothing of the environment.

    A connection lives for `whole` seconds at most, whatever keeps it alive.
    `local` is an administrator's word that the model runs on this machine or network; without it
    loopback and private addresses are refused, with it link-local and metadata ones still are.
    """
    import httpx2

    check_url(base_url, local=local)
    # A connection is used once: one that was kept may have been closed by the other side, and a
    # failure of it could not be told from one after the request was read.
    once = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    transport = httpx2.HTTPTransport(trust_env=False, retries=0, limits=once)
    # The pool has to connect to the very address that was checked: a second look at the name may
    # give another one.
    setattr(transport._pool, "_network_backend", _checked_backend(local, whole))  # noqa: B010
    timeout = httpx2.Timeout(seconds, connect=connect)
    return httpx2.Client(
        transport=transport, follow_redirects=False, trust_env=False, timeout=timeout
    )


def check_url(base_url: str, *, local: bool) -> None:
    """AddressRefused unless it is http(s) with a host, and without a user, query or fragment.

    Plain http is for what is near.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AddressRefused(f"{base_url!r}: give an address such as https://models.example/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise AddressRefused("a model's address has no user, password, query or fragment in it")
    if parts.scheme == "http" and not local:
        raise AddressRefused(
            f"{base_url}: http sends the key for all to read; give https, or add the model with "
            "--local if it is on this machine or network"
        )


def check_addresses(host: str, addresses: Iterable[str], *, local: bool) -> list[str]:
    """The addresses, each once, when every one of them is allowed; AddressRefused otherwise."""
    found = [ipaddress.ip_address(text.partition("%")[0]) for text in addresses]
    if not found:
        raise AddressRefused(f"{host} has no address")
    for address in found:
        _check(host, _plain(address), local)
    return list(dict.fromkeys(str(one) for one in found))


def _check(host: str, address: Address, local: bool) -> None:
    where = host if host == str(address) else f"{host} ({address})"
    if address in METADATA or address.is_link_local or address.is_multicast:
        raise AddressRefused(f"{where} is a link-local, metadata or multicast address: refused")
    if address.is_unspecified or (address.is_reserved and not address.is_loopback):
        raise AddressRefused(f"{where} is not an address of a server")
    if not local and not address.is_global:
        raise AddressRefused(
            f"{where} is an address of this machine or network; add the model with --local if it "
            "is meant to be there"
        )


def _plain(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one, where there is one."""
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address


def _checked_backend(local: bool, whole: float) -> Any:
    """A network layer that connects to checked addresses alone, and for so long."""
    import httpcore2

    class CheckedBackend(httpcore2.SyncBackend):
        def connect_tcp(self, host: str, port: int, *rest: Any, **named: Any) -> Any:
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as error:
                raise httpcore2.ConnectError(f"{host}: {error}") from error
            allowed = check_addresses(host, (str(one[4][0]) for one in found), local=local)
            for address in allowed:
                try:
                    stream = super().connect_tcp(address, port, *rest, **named)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                    if address == allowed[-1]:
                        raise
                else:
                    return _timed(stream, time.monotonic() + whole)

        def connect_unix_socket(self, *_: Any, **__: Any) -> Any:
            raise AddressRefused("a remote model is not reached through a Unix socket")

    return CheckedBackend()


def _timed(stream: Any, end: float) -> Any:
    """A connection on which nothing is read after `end`, with or without TLS on it."""
    import httpcore2

    class Timed(httpcore2.NetworkStream):
        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            left = end - time.monotonic()
            if left <= 0:
                raise httpcore2.ReadTimeout("the whole answer took too long")
            read: bytes = stream.read(max_bytes, left if timeout is None else min(timeout, left))
            return read

        def write(self, buffer: bytes, timeout: float | None = None) -> None:
            stream.write(buffer, timeout)

        def close(self) -> None:
            stream.close()

        def start_tls(self, *given: Any, **named: Any) -> Any:
            return _timed(stream.start_tls(*given, **named), end)

        def get_extra_info(self, info: str) -> Any:
            return stream.get_extra_info(info)

    return Timed()
