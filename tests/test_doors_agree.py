"""REST, MCP and the command line say the same: same data, same refusal, for every operation."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from app.mcp_tools import TOOLS
from tests.doors.conftest import CAPS, OVER, new_key, serving, wait_until_over
from tests.doors.terminal import Terminal
from tests.doors.wire import Wire
from tests.server.process import Server

RUNS = "/v1/agent-runs/rsi/runs"
Json = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """One thing to ask, in the words of each door; `el` is None where the command has no twin."""

    tool: str
    given: Json
    path: str
    el: str | None = None
    query: Json = field(default_factory=dict)
    body: Json | None = None


class Doors:
    """The three doors with one key; an answer is a body, a refusal its code."""

    def __init__(self, server: Server, key: str, terminal: Terminal) -> None:
        self._wire, self._terminal = Wire(server, key), terminal
        self._environment = {"ENVLOOP_BASE_URL": server.url, "ENVLOOP_API_KEY": key}
        headers = {"Authorization": f"Bearer {key}"}
        self._rest = httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False)

    def close(self) -> None:
        self._rest.close()

    def rest(self, ask: Ask) -> Json:
        if ask.body is None:
            answer = self._rest.get(RUNS + ask.path, params=ask.query)
        else:
            answer = self._rest.post(RUNS + ask.path, json=ask.body)
        found: Json = answer.json()
        return found

    def mcp(self, ask: Ask) -> Json:
        call = {"name": ask.tool, "arguments": ask.given}
        found: Json = self._wire.new("tools/call", call).json["result"]["structuredContent"]
        return found

    def el(self, ask: Ask) -> Json:
        assert ask.el is not None
        self._terminal.set(**self._environment)
        done = self._terminal("job", "run", *ask.el.split())
        found: Json = {"code": done.refusal} if done.code else done.json()
        return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("agree")) as started:
        wait_until_over(started)
        yield started


@pytest.fixture(scope="module")
def keys(server: Server) -> dict[str, str]:
    return {role: new_key(server, role) for role in ("developer", "viewer")}


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(monkeypatch, capsys)


@pytest.fixture
def doors(server: Server, keys: dict[str, str], terminal: Terminal) -> Iterator[Doors]:
    opened = Doors(server, keys["developer"], terminal)
    yield opened
    opened.close()


@pytest.fixture
def viewer(server: Server, keys: dict[str, str], terminal: Terminal) -> Iterator[Doors]:
    opened = Doors(server, keys["viewer"], terminal)
    yield opened
    opened.close()


# Reads of a run that is over, so that nothing moves between two doors

READS = [
    Ask("rsi_list_runs", {}, ""),
    Ask("rsi_list_runs", {"limit": 1}, "", query={"limit": 1}),
    Ask("rsi_run_status", {"run": OVER}, f"/{OVER}"),
    Ask("rsi_run_status", {"run": OVER, "compact": True}, f"/{OVER}", query={"compact": "true"}),
    Ask("rsi_status", {"run": OVER}, f"/{OVER}/live", f"live {OVER}"),
    Ask(
        "rsi_status",
        {"run": OVER, "since": 7},
        f"/{OVER}/live",
        f"live {OVER} --since 7",
        {"since": 7},
    ),
    Ask("rsi_round", {"run": OVER, "round": 1}, f"/{OVER}/rounds/1"),
]


def name(value: Any) -> str:
    """What a case is called."""
    return value.tool if isinstance(value, Ask) else str(value)


@pytest.mark.parametrize("ask", READS, ids=name)
def test_a_read_is_the_same_through_every_door(doors: Doors, ask: Ask):
    body = doors.rest(ask)
    assert "code" not in body and (body.get("run") == OVER or body["items"])
    assert doors.mcp(ask) == body
    if ask.el is not None:
        assert doors.el(ask) == body


def test_the_list_of_the_command_names_the_runs_of_the_others(doors: Doors):
    listed = doors.rest(READS[0])["items"]
    grouped = doors.el(Ask("", {}, "", "list --json"))["items"]
    assert {one["run"] for one in grouped} == {one["run"] for one in listed}


# Refusals: the first column is who asks

BAD = {"brief": "x", "limits": CAPS}
START = "start {} --brief x --max-model-cost-usd 1"


def started(run: str, el: str, **changes: Any) -> Ask:
    """A start that is to be refused."""
    body = {"run": run, **BAD, **changes}
    return Ask("rsi_start_run", body, "", el, body=body)


def said(run: str, text: Any, tool: str = "rsi_steer", el: str | None = None) -> Ask:
    """A steer or a directive that is to be refused."""
    path = f"/{run}/{'steer' if tool == 'rsi_steer' else 'directives'}"
    return Ask(tool, {"run": run, "text": text}, path, el, body={"text": text})


def controlled(run: str, el: str | None, **body: Any) -> Ask:
    """A control request that is to be refused."""
    return Ask("rsi_control", {"run": run, **body}, f"/{run}/control", el, body=body)


def looked(tool: str, path: str, el: str | None = None, query: Any = None, **given: Any) -> Ask:
    """A read that is to be refused."""
    return Ask(tool, given, path, el, query or {})


REFUSALS: list[tuple[str, str, Ask]] = [
    ("developer", "INVALID_LIMIT", looked("rsi_list_runs", "", None, {"limit": 101}, limit=101)),
    ("developer", "INVALID_CURSOR", looked("rsi_list_runs", "", None, {"cursor": "?"}, cursor="?")),
    ("viewer", "RSI_RUN_NOT_FOUND", looked("rsi_run_status", "/nobody", run="nobody")),
    (
        "viewer",
        "RSI_RUN_NOT_FOUND",
        looked("rsi_status", "/nobody/live", "live nobody", run="nobody"),
    ),
    (
        "viewer",
        "INVALID_RSI_REQUEST",
        looked(
            "rsi_status",
            f"/{OVER}/live",
            f"live {OVER} --since -1",
            {"since": -1},
            run=OVER,
            since=-1,
        ),
    ),
    ("viewer", "RSI_RUN_NOT_FOUND", looked("rsi_round", "/nobody/rounds/0", run="nobody", round=0)),
    ("viewer", "INVALID_RSI_REQUEST", looked("rsi_round", f"/{OVER}/rounds/0", run=OVER, round=0)),
    ("viewer", "RESOURCE_NOT_FOUND", looked("rsi_round", f"/{OVER}/rounds/2", run=OVER, round=2)),
    ("developer", "RSI_CONFLICT", started(OVER, START.format(OVER))),
    ("developer", "INVALID_RSI_REQUEST", started("Bad_Id", START.format("Bad_Id"))),
    ("developer", "INVALID_RSI_REQUEST", started("a" * 65, START.format("a" * 65))),
    ("developer", "INVALID_RSI_REQUEST", started("n", f"{START.format('n')} --rounds 0", rounds=0)),
    (
        "developer",
        "INVALID_RSI_REQUEST",
        started("n", f"{START.format('n')} --domain astrology", domain="astrology"),
    ),
    (
        "developer",
        "INVALID_RSI_REQUEST",
        started("n", "start n --brief x --model-usd-cap -1", limits={"max_model_cost_usd": -1}),
    ),
    (
        "developer",
        "INVALID_RSI_REQUEST",
        started(
            "n", f"{START.format('n')} --student-model sim/student", student_model="sim/student"
        ),
    ),
    (
        "developer",
        "INVALID_RSI_REQUEST",
        started(
            "n",
            f"{START.format('n')} --dry-run --student-model far/away",
            dry_run=True,
            student_model="far/away",
        ),
    ),
    ("viewer", "ACCESS_DENIED", started("Bad_Id", START.format("Bad_Id"))),
    ("developer", "RSI_RUN_NOT_ACTIVE", said(OVER, "late", el=f"steer {OVER} late")),
    ("developer", "INVALID_STEER", said(OVER, "x" * 4001, el=f"steer {OVER} {'x' * 4001}")),
    ("developer", "INVALID_STEER", said(OVER, None)),
    ("developer", "RSI_RUN_NOT_FOUND", said("nobody", "x" * 4001, el="steer nobody late")),
    ("viewer", "ACCESS_DENIED", said("nobody", "", el="steer nobody late")),
    ("developer", "INVALID_DIRECTIVE", said(OVER, " ", "rsi_add_directive")),
    ("developer", "RSI_RUN_NOT_FOUND", said("nobody", " ", "rsi_add_directive")),
    ("viewer", "ACCESS_DENIED", said(OVER, "x", "rsi_add_directive")),
    ("developer", "RSI_CONFLICT", controlled(OVER, f"stop {OVER}", action="stop")),
    ("developer", "RSI_CONFLICT", controlled(OVER, f"resume {OVER}", action="resume")),
    (
        "developer",
        "RSI_CONFLICT",
        controlled(OVER, f"extend {OVER} --rounds 1", action="extend", rounds=1),
    ),
    (
        "developer",
        "INVALID_RSI_REQUEST",
        controlled(OVER, f"extend {OVER} --rounds 0", action="extend", rounds=0),
    ),
    ("developer", "INVALID_RSI_REQUEST", controlled(OVER, None, action="delete")),
    ("developer", "INVALID_RSI_REQUEST", controlled(OVER, None, action="stop", rounds=2)),
    ("developer", "RSI_RUN_NOT_FOUND", controlled("nobody", "stop nobody", action="stop")),
    ("viewer", "ACCESS_DENIED", controlled(OVER, f"stop {OVER}", action="stop")),
    ("viewer", "ACCESS_DENIED", controlled("nobody", "resume nobody", action="resume")),
]


@pytest.mark.parametrize(("who", "code", "ask"), REFUSALS, ids=name)
def test_a_refusal_is_the_same_through_every_door(
    doors: Doors, viewer: Doors, who: str, code: str, ask: Ask
):
    asked = viewer if who == "viewer" else doors
    told = asked.rest(ask)
    assert told["code"] == code
    assert asked.mcp(ask)["code"] == code
    if ask.el is not None:
        assert asked.el(ask)["code"] == code


def test_no_operation_is_left_out():
    refused = {ask.tool for _, _, ask in REFUSALS}
    assert refused == set(TOOLS)
    assert {ask.tool for ask in READS} == {tool.name for tool in TOOLS.values() if tool.only_reads}


# Changes


def test_a_run_started_stopped_and_extended_through_any_door_answers_alike(doors: Doors):
    receipts, tickets, stopped = [], [], []
    for door in ("rest", "mcp", "el"):
        ask = getattr(doors, door)
        run = f"by-{door}"
        words = f"start {run} --brief x --max-model-cost-usd 1 --dry-run --rounds 1000"
        body = {"run": run, **BAD, "dry_run": True, "rounds": 1000}
        receipts.append(ask(Ask("rsi_start_run", body, "", words, body=body)))
        tickets.append(ask(said(run, "on", el=f"steer {run} on")))
        stopped.append(ask(controlled(run, f"stop {run}", action="stop")))
    for answers in (receipts, tickets, stopped):
        plain = [without_names(answer) for answer in answers]
        assert plain[0] == plain[1] == plain[2] and "code" not in plain[0]
    assert receipts[0]["state"] == "starting" and stopped[0]["rounds_target"] == 1000


def test_a_directive_reads_the_same_whichever_door_it_came_through(doors: Doors):
    asked = {"text": "No word problems."}
    path = f"/{OVER}/directives"
    ask = Ask("rsi_add_directive", {"run": OVER, **asked}, path, body=asked)
    made = [doors.rest(ask), doors.mcp(ask)]
    assert without_names(made[0]) == without_names(made[1])
    assert doors.rest(Ask("", {}, path))["items"] == made


def without_names(answer: Json) -> Json:
    """An answer without what may differ: ids, moments, and how far a run that goes on has come."""
    differing = ("run", "id", "at", "created_at", "state", "round")
    return {name: value for name, value in answer.items() if name not in differing}
