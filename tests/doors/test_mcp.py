"""MCP: the official client in both eras of the protocol, then the wire itself."""

import asyncio
import itertools
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from starlette.types import Receive, Scope, Send

from app.caller import Caller
from app.mcp import McpDoor
from app.mcp_tools import TOOLS
from app.service import Service
from data.home import open_home
from data.store import Store
from tests.doors.conftest import CAPS, new_key
from tests.doors.wire import MODERN, PATH, Wire
from tests.server.process import Server

ERAS = ("legacy", MODERN)
ARGUMENTS = {
    "rsi_list_runs": {"limit", "cursor"},
    "rsi_run_status": {"run", "compact"},
    "rsi_status": {"run", "since"},
    "rsi_round": {"run", "round"},
    "rsi_add_directive": {"run", "text"},
    "rsi_steer": {"run", "text"},
    "rsi_control": {"run", "action", "rounds"},
}
numbers = itertools.count(1)


@pytest.fixture
def wire(server: Server, key: str) -> Wire:
    return Wire(server, key)


@asynccontextmanager
async def connected(server: Server, key: str, era: str) -> AsyncIterator[Client]:
    """The official client, with the key as its configuration would send it."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(server.url + PATH, http_client=http)
        async with Client(transport, mode=era) as client:
            yield client


def body_of(result: CallToolResult) -> Any:
    """What a successful call answered: the same as text and as structured content."""
    assert not result.is_error, result
    [content] = result.content
    assert content.type == "text" and json.loads(content.text) == result.structured_content
    return result.structured_content


def refusal_of(result: CallToolResult) -> str:
    """The code of a refused call, which its text names as well."""
    told = result.structured_content
    [content] = result.content
    assert result.is_error and set(told) <= {"code", "message", "reason"}
    assert content.type == "text" and content.text == f"{told['code']}: {told['message']}"
    return str(told["code"])


# What a client sees


@pytest.mark.parametrize("era", [*ERAS, "auto"])
async def test_the_official_client_finds_eight_tools_with_exact_schemas(
    server: Server, viewer: str, era: str
):
    async with connected(server, viewer, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {*ARGUMENTS, "rsi_start_run"}
    for name, tool in tools.items():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.description and tool.annotations
        assert tool.annotations.read_only_hint == (TOOLS[name].capability == "read")
        if name in ARGUMENTS:
            assert set(tool.input_schema["properties"]) == ARGUMENTS[name]
    start = tools["rsi_start_run"].input_schema
    assert start["required"] == ["run", "brief", "limits"]
    assert start["properties"]["limits"]["additionalProperties"] is False


@pytest.mark.parametrize("era", ERAS)
async def test_a_run_is_started_watched_steered_and_stopped(server: Server, key: str, era: str):
    run = f"mcp-{next(numbers)}"
    fields = {"run": run, "brief": "Sums.", "limits": CAPS, "dry_run": True, "rounds": 1000}
    async with connected(server, key, era) as client:

        async def ask(tool: str, **given: Any) -> Any:
            return await client.call_tool(f"rsi_{tool}", given)

        receipt = body_of(await ask("start_run", **fields))
        assert receipt["state"] == "starting" and receipt["owner"]["actor"].startswith("key:")
        assert refusal_of(await ask("start_run", **fields)) == "RSI_CONFLICT"
        listed = body_of(await ask("list_runs", limit=1))
        assert [one["run"] for one in listed["items"]] == [run] and listed["next_cursor"]
        summary = body_of(await ask("run_status", run=run, compact=True))
        whole = body_of(await ask("run_status", run=run))
        assert set(summary) < set(whole) and "rounds" not in summary
        assert body_of(await ask("steer", run=run, text="Long sums."))["status"] == "queued"
        directive = body_of(await ask("add_directive", run=run, text="No word problems."))
        assert directive["text"] == "No word problems."
        page = body_of(await ask("status", run=run, since=0.0))  # JSON's own kind of whole number
        assert [steer["text"] for steer in page["steers"]] == ["Long sums."]
        assert body_of(await ask("control", run=run, action="stop"))["stop_requested"]


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_a_fault_and_a_bad_field_a_refusal(
    server: Server, key: str, over: str, era: str
):
    async with connected(server, key, era) as client:
        with pytest.raises(MCPError) as fault:
            await client.call_tool("rsi_delete_everything", {})
        assert fault.value.code == -32602
        for tool, given, code in REFUSED:
            words = {"run": over, **given} if "run" in TOOLS[tool].properties else given
            assert refusal_of(await client.call_tool(tool, words)) == code, (tool, given)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("rsi_list_runs", {"limit": 0}, "INVALID_LIMIT"),
    ("rsi_list_runs", {"limit": "5"}, "INVALID_LIMIT"),
    ("rsi_list_runs", {"limit": True}, "INVALID_LIMIT"),
    ("rsi_list_runs", {"cursor": "x"}, "INVALID_CURSOR"),
    ("rsi_list_runs", {"cursor": 5}, "INVALID_CURSOR"),
    ("rsi_list_runs", {"state": "running"}, "INVALID_RSI_REQUEST"),
    ("rsi_run_status", {"run": 5}, "INVALID_RSI_REQUEST"),
    ("rsi_run_status", {"compact": "yes"}, "INVALID_RSI_REQUEST"),
    ("rsi_run_status", {"run": "nobody"}, "RSI_RUN_NOT_FOUND"),
    ("rsi_run_status", {"run": "nobody", "compact": "yes"}, "RSI_RUN_NOT_FOUND"),
    ("rsi_status", {"since": -1}, "INVALID_RSI_REQUEST"),
    ("rsi_status", {"since": 1.5}, "INVALID_RSI_REQUEST"),
    ("rsi_round", {}, "INVALID_RSI_REQUEST"),
    ("rsi_round", {"round": 0}, "INVALID_RSI_REQUEST"),
    ("rsi_round", {"round": 99}, "RESOURCE_NOT_FOUND"),
    ("rsi_start_run", {"run": "Bad Id", "brief": "x", "limits": CAPS}, "INVALID_RSI_REQUEST"),
    ("rsi_start_run", {"run": "x", "brief": "x"}, "INVALID_RSI_REQUEST"),
    ("rsi_start_run", {"run": "x", "brief": "x", "limits": CAPS, "a": 1}, "INVALID_RSI_REQUEST"),
    ("rsi_steer", {"text": "Too late."}, "RSI_RUN_NOT_ACTIVE"),
    ("rsi_steer", {"text": " "}, "INVALID_STEER"),
    ("rsi_steer", {}, "INVALID_STEER"),
    ("rsi_steer", {"text": "x", "author": "mallory"}, "INVALID_RSI_REQUEST"),
    ("rsi_add_directive", {"text": "x" * 4001}, "INVALID_DIRECTIVE"),
    ("rsi_control", {"action": "stop"}, "RSI_CONFLICT"),
    ("rsi_control", {"action": "delete"}, "INVALID_RSI_REQUEST"),
    ("rsi_control", {"action": "extend"}, "INVALID_RSI_REQUEST"),
    ("rsi_control", {"action": "extend", "rounds": "5"}, "INVALID_RSI_REQUEST"),
]


async def test_a_key_that_only_reads_is_refused_before_its_fields_are_looked_at(
    server: Server, viewer: str, over: str
):
    async with connected(server, viewer, MODERN) as client:
        for name, tool in TOOLS.items():
            result = await client.call_tool(name, {"run": over} if tool.required else {})
            if not tool.only_reads:
                assert refusal_of(result) == "ACCESS_DENIED", name
            elif name != "rsi_round":
                assert "items" in body_of(result) or body_of(result)["run"] == over


async def test_many_calls_at_once_are_all_answered(server: Server, over: str):
    key = new_key(server, "viewer")
    async with connected(server, key, MODERN) as client:
        calls = (client.call_tool("rsi_status", {"run": over}) for _ in range(40))
        answers = await asyncio.gather(*calls)
    assert {body_of(answer)["run_state"] for answer in answers} == {"finished"}


# The wire


def test_without_a_key_there_is_no_way_in(wire: Wire):
    for value in (None, "Bearer no-such-key", "Basic abc", ""):
        answer = wire.send({}, authorization=value)
        assert (answer.status, answer.json["code"]) == (401, "UNAUTHORIZED")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_cookie_opens_nothing_here(wire: Wire):
    answer = wire.send({}, authorization=None, cookie=f"pawl_{wire.port}=anything")
    assert answer.status == 401


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_messages_are_posted_and_nothing_else(wire: Wire, method: str):
    for path in (PATH, f"{PATH}/"):
        answer = wire.send(method=method, path=path)
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert answer.json["code"] == "METHOD_NOT_ALLOWED"


@pytest.mark.parametrize("path", [PATH, f"{PATH}/", f"/api{PATH}", f"/api{PATH}/"])
def test_every_spelling_of_the_path_is_answered_without_a_redirect(wire: Wire, path: str):
    answer = wire.send({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=path)
    assert answer.status == 200 and answer.json["result"] == {}
    assert "mcp-session-id" not in answer.headers


def test_foreign_hosts_and_origins_are_turned_away(wire: Wire):
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert wire.send(ping, host="evil.example").status == 421
    assert wire.send(ping, host=f"evil.example:{wire.port}").status == 421
    assert wire.send(ping, origin="http://evil.example").status == 403
    assert wire.send(ping, origin="null").status == 403
    own = f"127.0.0.1:{wire.port}"
    assert wire.send(ping, host=own, origin=f"http://{own}").status == 200


def test_notifications_are_taken_without_an_answer(wire: Wire):
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    for version in (None, "2025-11-25", MODERN):
        answer = wire.send(told, mcp_protocol_version=version)
        assert (answer.status, answer.raw) == (202, b"")


def test_what_is_no_message_is_a_fault_of_the_protocol(wire: Wire):
    for version in (None, MODERN):
        broken = wire.send(b"{nope", mcp_protocol_version=version)
        assert (broken.status, broken.fault) == (400, -32700)
        assert wire.send([], mcp_protocol_version=version).status == 400
        deep = wire.send(b"[" * 100_000, mcp_protocol_version=version)
        assert (deep.status, deep.fault) == (400, -32700)
    assert wire.old("runs/delete").fault == -32601
    gone = wire.new("ping")  # which the newer era does not have
    assert (gone.status, gone.fault) == (404, -32601)
    assert wire.old("tools/call", name="rsi_status", arguments=[]).fault == -32602


def test_headers_that_contradict_the_message_are_refused(wire: Wire):
    call = {"name": "rsi_list_runs", "arguments": {}}
    assert wire.new("tools/call", call).status == 200
    assert wire.new("tools/call", call, mcp_name=" rsi_list_runs ").status == 200
    for wrong in (
        {"mcp_name": "rsi_status"},
        {"mcp_name": None},
        {"mcp_method": "tools/list"},
    ):
        answer = wire.new("tools/call", call, **wrong)
        assert (answer.status, answer.fault) == (400, -32020), wrong
    unserved = wire.new("tools/call", call, mcp_protocol_version="2099-01-01")
    assert (unserved.status, unserved.fault) == (400, -32020)


def test_what_is_too_large_or_of_another_kind_is_refused_in_json(wire: Wire):
    large = wire.send(b'"' + b"x" * 256 * 1024 + b'"')
    assert (large.status, large.json["code"]) == (413, "REQUEST_TOO_LARGE")
    for kind in ("text/plain", None):
        other = wire.send({}, content_type=kind)
        assert (other.status, other.json["code"]) == (415, "INVALID_REQUEST")
    for version in (None, MODERN):
        html = wire.send({}, accept="text/html", mcp_protocol_version=version)
        assert html.status == 406 and html.json


def test_halves_of_characters_and_numbers_that_are_none_are_refused(wire: Wire):
    half = wire.new("tools/call", {"name": "rsi_status", "arguments": {"run": "\ud800"}})
    assert half.json["result"]["structuredContent"]["code"] == "INVALID_RSI_REQUEST"
    limits = {"max_model_cost_usd": float("nan")}
    start = {"run": "nan", "brief": "x", "limits": limits}
    none = wire.new("tools/call", {"name": "rsi_start_run", "arguments": start})
    assert none.json["result"]["structuredContent"]["code"] == "INVALID_RSI_REQUEST"


def test_a_foreign_scope_is_a_refusal(wire: Wire):
    answer = wire.new("tools/call", {"name": "rsi_list_runs"}, x_project_id="prj_other")
    assert answer.json["result"]["structuredContent"]["code"] == "ACCESS_DENIED"


def test_the_newer_era_tells_what_is_served_here(wire: Wire):
    found = wire.new("server/discover").json["result"]
    assert found["supportedVersions"] == [MODERN]
    assert set(found["capabilities"]) == {"tools"}


# Behind the wire


async def test_what_breaks_below_is_told_without_its_insides(tmp_path: Path):
    home = open_home(tmp_path)
    store = Store(home.database)
    able = frozenset({"read", "training.run"})
    caller = Caller(actor="key:x", workspace_id="ws", project_id="prj", capabilities=able)
    door = McpDoor(Service(store, "a machine"))

    async def signed_in(scope: Scope, receive: Receive, send: Send) -> None:
        await door({**scope, "state": {"caller": caller}}, receive, send)

    async def ask(tool: str, **given: Any) -> Any:
        call = {"name": tool, "arguments": given}
        told = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        answer = await http.post(PATH, json=told, headers={"Accept": "application/json"})
        return answer.json()["result"]["structuredContent"]

    with sqlite3.connect(home.database) as database:
        database.execute("ALTER TABLE run RENAME TO lost")
    database.close()
    transport = httpx2.ASGITransport(signed_in)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        broken = await ask("rsi_list_runs")
        store.close()
        ending = await ask("rsi_start_run", run="x", brief="x", limits=CAPS, dry_run=True)
    await door.close()
    assert broken["code"] == "INTERNAL_SERVER_ERROR" and "table" not in broken["message"]
    assert ending["code"] == "RSI_CONTROL_UNAVAILABLE" and "start it again" in ending["message"]
