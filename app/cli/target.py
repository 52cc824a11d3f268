"""Finds the server to talk to and the key to show it.

The environment says so first (ENVLOOP_BASE_URL or the older ENVPLATFORM_API_URL, ENVLOOP_API_KEY,
ENVLOOP_WORKSPACE_ID, ENVLOOP_PROJECT_ID), then the sign-in saved in the folder ENVLOOP_HOME, then
the server that runs on this machine's PAWL_HOME with its owner's key.
"""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.cli.problem import Problem
from data.home import Home, is_held

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
KEY = re.compile(r"[A-Za-z0-9._~-]{1,512}")


@dataclass(kw_only=True, slots=True, frozen=True)
class Target:
    """Where requests go: `api` ends in /v1. Without a key the server is asked all the same."""

    api: str
    key: str | None
    workspace: str | None = None
    project: str | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, where no proxy has a part in it."""
        return urlsplit(self.api).hostname in LOOPBACK


def find_target() -> Target:
    """The server and the key for this command; Problem when there is none to talk to."""
    saved = _saved(os.environ.get("ENVLOOP_HOME"))
    url = os.environ.get("ENVLOOP_BASE_URL") or os.environ.get("ENVPLATFORM_API_URL")
    url = url or saved.get("url")
    here = _server_here()
    if not url and here is None:
        raise Problem("NO_SERVER")
    api = _api(url or str(here))
    key = os.environ.get("ENVLOOP_API_KEY")  # an empty one is a mistake, not a missing one
    if key is None:
        key = saved.get("keys", {}).get(_origin(api)) or _owner_key(api, here)
    if key is not None and not KEY.fullmatch(key):
        raise Problem("INVALID_API_KEY")
    workspace = os.environ.get("ENVLOOP_WORKSPACE_ID") or saved.get("workspace")
    project = os.environ.get("ENVLOOP_PROJECT_ID") or saved.get("project")
    return Target(api=api, key=key, workspace=workspace, project=project)


def _api(url: str) -> str:
    """The address below which the routes are; a key never goes over the network in the open."""
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Problem("INVALID_BASE_URL") from None
    extra = parts.username or parts.password or parts.query or parts.fragment
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    if not host or extra or not is_safe:
        raise Problem("INVALID_BASE_URL")
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{parts.netloc}{path}/v1"


def _server_here() -> str | None:
    """The address of this machine's server, when it runs.

    A note that a killed server left behind is not believed: somebody else may listen there by now.
    """
    home = home_here()
    note = home.server() if home.path.is_dir() else None
    try:
        holder = json.loads(home.lock_file.read_text()).get("pid") if note else None
        is_running = note is not None and note.get("pid") == holder and is_held(home)
    except (OSError, ValueError):
        return None
    return note.get("url") if note and is_running else None


def _owner_key(api: str, here: str | None) -> str | None:
    """The key that this machine's server made for its owner; it is shown to no other server."""
    if here is None or urlsplit(api).port != urlsplit(here).port:
        return None
    if urlsplit(api).hostname not in LOOPBACK:
        return None
    try:
        return home_here().owner_key.read_text().strip()
    except OSError:
        return None


def home_here() -> Home:
    """PAWL_HOME, else the default place; not made here."""
    given = os.environ.get("PAWL_HOME") or "~/.local/share/pawl"
    return Home(path=Path(given).expanduser().resolve())


def _saved(folder: str | None) -> dict[str, Any]:
    """What a sign-in has saved in ENVLOOP_HOME; the default folder is not looked at.

    A person may be signed in to some other service there, and must not start a paid run on it only
    because no server runs here.
    """
    if not folder:
        return {}
    try:
        connection = _read(Path(folder) / "config.toml", tomllib.loads).get("connection", {})
        found = _read(Path(folder) / "auth.json", json.loads).get("credentials", {})
        keys = {url: entry["api_key"] for url, entry in found.items() if entry.get("api_key")}
        names = {"url": "api_url", "workspace": "workspace_id", "project": "project_id"}
        return {"keys": keys} | {ours: connection.get(name) for ours, name in names.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        raise Problem("INVALID_CONFIGURATION") from None


def _read(path: Path, parse: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = parse(path.read_text()) if path.exists() else {}
    return found


def _origin(api: str) -> str:
    return api[: -len(urlsplit(api).path)]
