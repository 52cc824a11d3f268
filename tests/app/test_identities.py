"""Every route, tool and page against everybody who may come: the table is made from the app itself.

What each cell must answer follows from the declared capability alone, so that a new entrance is in
the table without a word here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from nicegui import app as web
from nicegui.testing import User
from sqlmodel import Session, select

from app.access import PROJECT, WORKSPACE, Access, cookie_name
from app.administration import LOCAL_OWNER
from app.arrival import MCP_PATH
from app.caller import ROLES
from app.guard import OPEN_PATHS
from app.mcp_tools import TOOLS
from app.rate import Rate
from app.service import Service
from data.store import Store
from data.tables import Checkpoint, Control, Directive, Job, Project, Run, Steer
from tests import sample_run
from tests.app.test_capabilities import REFUSED_TO_ALL, needed, rest

BASE, PORT = "http://test", 8710
JSON_BODY = {"Content-Type": "application/json", "Accept": "application/json"}
OTHER = "prj_other"
FOREIGN, MISSING = "spatial-grid-1", "spatial-grid-9"
THERE = {  # what a name in a path stands for, where it exists
    "run": "arith-carry-2",
    "job": "arith-carry-2-r2",
    "number": "1",
    "workspace": WORKSPACE,
    "project": PROJECT,
}
SCOPE = {"workspace", "project"}  # a foreign scope is refused, so these are always one's own
OWNED = {"run", "job", "checkpoint"}  # what belongs to a project
NOBODY = frozenset[str]()


@dataclass(kw_only=True, frozen=True)
class Identity:
    """Somebody who comes: what they send along, what they may do, and whether they are a person."""

    name: str
    headers: Mapping[str, str]
    capabilities: frozenset[str] = NOBODY
    is_person: bool = False

    def may(self, needs: set[str]) -> bool:
        """Whether everything that is needed is theirs."""
        return needs <= self.capabilities


@dataclass(kw_only=True, frozen=True)
class Entrance:
    """A way in that something can be asked at, and the capabilities that it declares."""

    name: str
    method: str
    path: str
    needs: set[str]
    tool: str | None = None

    @property
    def is_page(self) -> bool:
        return not self.path.startswith("/v1")


def entrances() -> Iterator[Entrance]:
    """Every REST route, MCP tool and page, from the tables that the app is made of."""
    from pages.site import PAGES  # dropped from sys.modules between tests

    for name, route in rest():
        for method in sorted(route.methods or ()):
            yield Entrance(
                name=name, method=method, path=f"/v1{route.path}", needs=needed(route.dependant)
            )
    for tool in TOOLS.values():
        needs = {tool.capability}
        yield Entrance(name=tool.name, method="POST", path=MCP_PATH, needs=needs, tool=tool.name)
    for path, page in PAGES.items():
        yield Entrance(name=path, method="GET", path=path, needs={page.needs})


class Doors:
    """The whole web application as it is served, without an engine behind it."""

    def __init__(self, client: httpx.AsyncClient, access: Access, store: Store) -> None:
        self._client, self.access, self.store = client, access, store

    async def ask(
        self, who: Identity, at: Entrance, names: Mapping[str, str], fields: Any = None
    ) -> httpx.Response:
        """One request; `names` fill the path, or are a tool's arguments."""
        headers = {**JSON_BODY, "Origin": BASE, **who.headers}
        body = json.dumps(_call(at.tool, names) if at.tool else fields or {"text": "x"})
        content = None if at.method == "GET" else body
        path = re.sub(r"\{(\w+)\}", lambda part: names[part[1]], at.path)
        return await self._client.request(at.method, path, headers=headers, content=content)

    def key(self, role: str) -> Identity:
        """Somebody with a new key of a role; no key administers."""
        _, key = self.access.keys.create(LOCAL_OWNER, name=role, role=role)
        headers = {"Authorization": f"Bearer {key}"}
        return Identity(name=f"{role}'s key", headers=headers, capabilities=ROLES[role])

    def person(self, role: str) -> Identity:
        """Somebody of a role who has signed in."""
        self.access.people.add(LOCAL_OWNER, name=role, role=role, password="a long enough one")
        token = self.access.open_session_by_password(role, "a long enough one")
        headers = {"Cookie": f"{cookie_name(PORT)}={token}"}
        return Identity(name=role, headers=headers, capabilities=ROLES[role], is_person=True)

    def everybody(self) -> list[Identity]:
        """The five identities; who may come with a key or by signing in comes both ways."""
        bad_key = {"Authorization": "Bearer pawl_no_such_key"}
        return [
            Identity(name="nobody", headers={}),
            Identity(name="bad key", headers=bad_key),
            *(come(role) for role in ("viewer", "developer") for come in (self.key, self.person)),
            self.person("admin"),
        ]


@pytest.fixture
def doors(
    user: User, store: Store, access: Access, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Doors]:
    """Everything that the server serves, over sample runs of two projects."""
    from pages import server  # dropped from sys.modules between tests

    # The table asks more often than a person may at once.
    monkeypatch.setattr("app.guard.Rate", lambda **_: Rate(burst=100_000, per_second=1))
    sample_run.fill(store)
    store.write(_give_to_others)
    front = server.Front(
        service=Service(store, "CPU, 2 cores"),
        access=access,
        port=PORT,
        allowed_hosts=frozenset({"test"}),
        ready=({}, {}),
    )
    before = list(web.router.routes)
    server.add_routes(web, front)
    web.middleware_stack = web.build_middleware_stack()
    server.put_guard_around(web, front)
    yield Doors(user.http_client, access, store)
    web.router.routes[:] = before  # what was hung in answers from a store that is closed now


async def test_everybody_gets_everywhere_what_the_capability_says(doors: Doors) -> None:
    everybody, wrong = doors.everybody(), []
    for at in entrances():
        for who in everybody:
            for names in filled(at):
                answer = await doors.ask(who, at, names)
                if not is_right(answer, who, at):
                    wrong.append(f"{at.name} {names}, {who.name}: {outcome(answer, at)}")
    assert not wrong, "\n".join(wrong)


async def test_a_viewer_changes_nothing_anywhere(doors: Doors) -> None:
    """Whatever is declared: by key or signed in, with names that exist and with others."""
    viewers, before = [doors.key("viewer"), doors.person("viewer")], rows(doors.store)
    for at in entrances():
        if at.method != "GET" and (at.tool is None or not TOOLS[at.tool].only_reads):
            for who in viewers[:1] if at.tool else viewers:
                for names in filled(at):
                    answer = await doors.ask(who, at, names, {"action": "stop", "text": "x"})
                    assert outcome(answer, at)[0] == 403, f"{at.name}, {who.name}"
    assert rows(doors.store) == before


async def test_the_ways_in_are_open_to_everybody(doors: Doors) -> None:
    everybody = doors.everybody()
    for path in sorted(OPEN_PATHS):
        at = Entrance(name=path, method="GET", path=path, needs=set())
        for who in everybody:
            answer = await doors.ask(who, at, {})
            leads_on = path == "/sign-in" and who.is_person
            assert answer.status_code == (303 if leads_on else 200), f"{path}, {who.name}"


async def test_what_belongs_to_others_looks_exactly_like_what_is_not_there(doors: Doors) -> None:
    """Runs, jobs and checkpoints, at every route, tool and page that names one."""
    asked, people = [], [doors.key("developer"), doors.person("admin")]
    for at in entrances():
        owned = named(at) & OWNED
        for who in people[:1] if at.tool else people:
            if owned:
                one, other = [
                    await doors.ask(who, at, names_of(at, owned, begins), {"action": "stop"})
                    for begins in (FOREIGN, MISSING)
                ]
                assert plain(one) == plain(other), f"{at.name}, {who.name}"
                assert outcome(one, at)[0] == 404, f"{at.name}, {who.name}: {one.text[:300]}"
                asked.append(at.name)
    assert {"GET /agent-runs/rsi/runs/{run}/live", "rsi_status", "/runs/{run}"} <= set(asked)
    assert {"POST /job/{job}/stop", "rsi_control"} <= set(asked)


async def test_what_belongs_to_others_is_in_no_list(doors: Doors) -> None:
    developer = doors.key("developer")
    for at in entrances():
        if not named(at) - SCOPE and at.method == "GET":
            answer = await doors.ask(developer, at, names_of(at, set(), ""))
            assert FOREIGN not in answer.text, at.name


# The table's cells


def is_right(answer: httpx.Response, who: Identity, at: Entrance) -> bool:
    """Whether an answer is what the capability asks for."""
    status = outcome(answer, at)[0]
    if not who.capabilities or (at.tool and who.is_person):  # agents have keys
        to_sign_in = answer.headers.get("location", "").startswith("/sign-in")
        return (status == 303 and to_sign_in) if at.is_page else status == 401
    if at.name in REFUSED_TO_ALL:  # administrators are told where they do it
        return (status == 403) != ("admin" in who.capabilities) and status < 500
    return (status == 403) != who.may(at.needs) and status != 401 and status < 500


def outcome(answer: httpx.Response, at: Entrance) -> tuple[int, str]:
    """Status and code, also of a tool's refusal, which comes with 200."""
    if at.is_page or not answer.content:
        return answer.status_code, ""
    body = answer.json()
    told = body.get("result", {}).get("structuredContent", body) if at.tool else body
    code = str(told.get("code", "")) if isinstance(told, dict) else ""
    statuses = {"ACCESS_DENIED": 403, "RSI_RUN_NOT_FOUND": 404}
    return statuses.get(code, answer.status_code), code


def named(at: Entrance) -> set[str]:
    """The names of things that a request there has to give; a start makes up its own."""
    if at.tool:
        tool = TOOLS[at.tool]
        return set() if tool.method == "start_run" else set(tool.required) & OWNED
    return set(re.findall(r"\{(\w+)\}", at.path))


def filled(at: Entrance) -> list[dict[str, str]]:
    """Names that exist as far as there are any, and names of nothing; one empty set without any."""
    there = {name: THERE.get(name, MISSING) for name in named(at)}
    nothing = {name: there[name] if name in SCOPE else MISSING for name in there}
    return [there, nothing] if there != nothing else [there]


def names_of(at: Entrance, owned: set[str], begins: str) -> dict[str, str]:
    """Names for a path: what is owned begins with `begins`, everything else exists."""
    ends = {"job": "-r1", "checkpoint": "-c1"}
    return {
        name: begins + ends.get(name, "") if name in owned else THERE.get(name, MISSING)
        for name in named(at)
    }


def plain(answer: httpx.Response) -> tuple[int, str]:
    """Status and body without the name that was asked for, and without a page's own ids."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", answer.text)
    return answer.status_code, text.replace(FOREIGN, MISSING)


def rows(store: Store) -> list[int]:
    """How many there are of whatever a change would add or take away."""
    with store.read() as session:
        kinds = (Run, Job, Directive, Steer, Control, Project, Checkpoint)
        return [len(session.exec(select(kind)).all()) for kind in kinds]


def _call(tool: str, names: Mapping[str, str]) -> dict[str, Any]:
    more: dict[str, Any] = {"round": 1} if "round" in TOOLS[tool].required else {}
    more |= {"action": "stop"} if "action" in TOOLS[tool].required else {}
    more |= {"text": "x"} if "text" in TOOLS[tool].required else {}
    params = {"name": tool, "arguments": {**names, **more}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def _give_to_others(session: Session) -> None:
    """One of the sample runs, with its jobs and a checkpoint, to another project."""
    session.add(Project(id=OTHER, workspace_id=WORKSPACE, name="Other"))
    session.flush()
    session.get_one(Run, FOREIGN).project_id = OTHER
    for job in session.exec(select(Job).where(Job.run == FOREIGN)):
        job.project_id = OTHER
    session.add(Job(id=f"{FOREIGN}-r1", project_id=OTHER, run=FOREIGN, round=1, type="train"))
    session.add(
        Checkpoint(
            id=f"{FOREIGN}-c1",
            project_id=OTHER,
            run=FOREIGN,
            round=1,
            base_model=sample_run.MODEL,
            base_revision="5a2c",
            size_bytes=1,
        )
    )
