"""Every entrance says which capability it needs: pages, routes, tools; nothing is let in unsaid."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.caller import CAPABILITIES, READ, ROLES
from app.guard import OPEN_PATHS, OPEN_POSTS
from app.mcp_tools import TOOLS
from app.rest.api import ROUTERS, documentation
from app.rest.asking import Needs
from pages.site import PAGES
from tests.test_rooms import LAW, ROOT

WRITES = {"POST", "PUT", "PATCH", "DELETE"}
PROJECT = "/workspaces/{workspace}/projects/{project}"
REFUSED_TO_ALL = {  # the published client knows them; here they change nothing for anybody
    f"PATCH {PROJECT}",
    f"POST {PROJECT}/archive",
    f"PUT {PROJECT}/members/{{user}}",
    f"DELETE {PROJECT}/members/{{user}}",
}
OPEN = {"/sign-in", "/session", "/healthz", "/readyz", "/favicon.ico"}
OPEN |= {"/v1/auth/cli/start", "/v1/auth/cli/poll", "/v1/auth/cli/cancel"}


def rest() -> Iterator[tuple[str, APIRoute]]:
    """Every REST route with its name, such as "GET /me"."""
    for router in (*ROUTERS, documentation):
        for route in router.routes:
            assert isinstance(route, APIRoute), f"{route} says nothing about its capability"
            yield f"{','.join(sorted(route.methods or []))} {route.path}", route


def needed(dependant: Dependant) -> set[str]:
    """The capabilities that a route's signature asks for."""
    own = {dependant.call.capability} if isinstance(dependant.call, Needs) else set()
    return own.union(*(needed(one) for one in dependant.dependencies))


@pytest.mark.parametrize(("name", "route"), list(rest()), ids=[name for name, _ in rest()])
def test_every_route_declares_what_it_needs(name: str, route: APIRoute) -> None:
    asked = needed(route.dependant)
    assert asked and asked <= CAPABILITIES, f"{name} declares no capability"
    writes = (route.methods or WRITES) & WRITES and name not in REFUSED_TO_ALL
    assert not writes or asked - {READ}, f"{name} changes something and only asks for read"


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_tool_declares_what_it_needs(tool: object) -> None:
    assert getattr(tool, "capability", None) in CAPABILITIES - {"admin"}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_declares_what_it_needs(path: str) -> None:
    assert PAGES[path].needs in CAPABILITIES


def test_pages_and_routes_are_made_nowhere_else() -> None:
    """What is hung into the server beside the tables has to be one of the open paths."""
    for file in [ROOT / "run.py", *(path for room in LAW for path in (ROOT / room).rglob("*.py"))]:
        for path in paths_hung(file):
            assert path in OPEN, f"{file.name} hangs {path} past the tables of capabilities"


def paths_hung(file: Path) -> Iterator[str]:
    """Paths given to `ui.page` and `web.get` and their like; those of the tables are variables."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            made = ast.unparse(node.func)
            path = node.args[0]
            hangs = made in {"ui.page", "web.get", "web.post", "web.add_route", "web.mount"}
            if hangs and isinstance(path, ast.Constant) and path.value not in {"", "/v1"}:
                yield str(path.value)


def test_what_is_open_without_sign_in_is_this_list() -> None:
    assert OPEN_PATHS | OPEN_POSTS == OPEN


def test_each_role_may_what_the_one_before_may_and_more() -> None:
    assert ROLES["viewer"] == {READ}
    assert ROLES["viewer"] < ROLES["developer"] < ROLES["admin"] == CAPABILITIES
    assert ROLES["admin"] - ROLES["developer"] == {"admin"}
