"""Where this server can be reached, and what it needs before others may reach it."""

import ipaddress
from collections.abc import Iterable

from app.access import Access
from app.errors import InvalidRequest
from app.settings import check_hosts

ANY = frozenset({"0.0.0.0", "::"})
PLAIN_HTTP = (
    "Warning: this is plain HTTP, and whoever is on the network can read passwords and keys. Put a "
    'proxy with TLS in front of it; the README has samples under "Running it for a team".'
)


def check_reach(host: str, access: Access, allowed_hosts: str | None) -> frozenset[str]:
    """The names that the server answers to beside loopback and its settings.

    InvalidRequest, with what to do, when `host` is open to others and nobody has thought of it yet.
    """
    names = frozenset(check_hosts(allowed_hosts or "").split(",")) - {""}
    if is_loopback(host):
        return names
    missing = []
    if not access.people.has_password_admin():
        missing.append("an admin with a password: python3 run.py user password owner")
    if not names | access.settings.network.hosts:
        missing.append("the names it is reached by: --allowed-hosts NAME,... or the setting")
    if missing:
        needs = "\n  ".join(missing)
        raise InvalidRequest(f"{host} is open to other machines, which needs first\n  {needs}")
    return names if host in ANY else names | {_bracketed(host)}


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def url_on(host: str, port: int) -> str:
    """The server's address as seen from this machine."""
    if host in ANY:
        host = "::1" if host == "::" else "127.0.0.1"
    return f"http://{_bracketed(host)}:{port}"


def urls_for_others(names: Iterable[str], port: int) -> list[str]:
    """The server's addresses without a proxy, as other machines see them."""
    return [f"http://{name}:{port}" for name in sorted(names)]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
