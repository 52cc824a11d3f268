"""A page of another site, on another port of the same machine, in a browser that is signed in here.

It tries every way that a page has: fetch, forms, images, sockets, frames. The cookie is same-site
there, since ports do not count, so that only the guard keeps it out.
"""

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Console

pytestmark = pytest.mark.browser

STEER = "/v1/agent-runs/rsi/runs/arith-carry-2/steer"
START = "/v1/agent-runs/rsi/runs"
WRITES = [
    ("POST", STEER, {"text": "from elsewhere"}),
    ("POST", START, {"run": "hostile-2", "brief": "b", "limits": {"max_model_cost_usd": 1}}),
    ("POST", "/v1/agent-runs/rsi/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    ("POST", "/session/end", {}),
    ("POST", "/session/cli", {"cli_login": "x", "answer": "deny"}),
    ("DELETE", "/v1/job/checkpoints/ckpt-1", {}),
    ("PUT", "/v1/workspaces/ws_local/projects/prj_local/members/ann", {"project_role": "admin"}),
]
FETCH = """async ([url, method, type, body]) => {
  const headers = type ? {"Content-Type": type} : {};
  const options = {method, headers, body, credentials: "include", mode: type ? "cors" : "no-cors"};
  try { return `${(await fetch(url, options)).status}` } catch (error) { return "blocked" }
}"""
SOCKET = """url => new Promise((resolve) => {
  const socket = new WebSocket(url);
  socket.onopen = () => resolve("open");
  socket.onerror = socket.onclose = () => resolve("refused");
})"""
FORM = """([url, fields]) => {
  const form = document.createElement("form");
  Object.assign(form, {method: "post", action: url, enctype: "text/plain"});
  for (const [name, value] of Object.entries(fields)) {
    const input = document.createElement("input");
    Object.assign(input, {name, value});
    form.append(input);
  }
  document.body.append(form);
  form.submit();
}"""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """A site of somebody else on another loopback port."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title><body>hello")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def hostile(context: BrowserContext, elsewhere: str) -> Page:
    """The other site's page, in a browser that is signed in here."""
    page = context.new_page()
    page.goto(elsewhere)
    return page


@pytest.fixture
def answers(context: BrowserContext, console: Console) -> Iterator[list[tuple[str, str, int]]]:
    """What this server answered, by method and path."""
    seen: list[tuple[str, str, int]] = []

    def note(response: Any) -> None:
        if response.url.startswith(console.url):
            path = response.url.removeprefix(console.url)
            seen.append((response.request.method, path, response.status))

    context.on("response", note)
    yield seen


def still_signed_in(context: BrowserContext, console: Console) -> Page:
    page = context.new_page()
    page.goto(console.url)
    expect(page.get_by_role("heading", name="Model loops")).to_be_visible()
    return page


def test_the_cookie_would_go_along(hostile: Page, console: Console, answers: Any) -> None:
    """What the rest is worth: a request from the other port is known by its cookie here."""
    with hostile.context.expect_event("response", lambda one: one.url == f"{console.url}/"):
        hostile.evaluate(
            "url => fetch(url, {mode: 'no-cors', credentials: 'include'})", console.url
        )
    assert [status for method, path, status in answers if path == "/"] == [200]


@pytest.mark.parametrize("kind", ["application/json", "text/plain", None])
def test_no_write_gets_through(
    hostile: Page, context: BrowserContext, console: Console, answers: Any, kind: str | None
) -> None:
    for method, path, body in WRITES:
        plain = kind != "application/json"
        sent = "POST" if plain else method  # other methods are asked for first, and refused
        outcome = hostile.evaluate(FETCH, [console.url + path, sent, kind, json.dumps(body)])
        assert outcome in {"blocked", "0"}
    deadline = time.monotonic() + 60
    while kind is None and len(answers) < len(WRITES):  # they are told a moment later
        assert time.monotonic() < deadline, answers
        hostile.wait_for_timeout(50)
    came = [status for method, _, status in answers if method != "GET"]
    assert came or kind  # of an answer that it blocks the browser tells nothing
    assert set(came) <= {403, 405}, answers
    page = still_signed_in(context, console)
    page.goto(f"{console.url}/?q=hostile-2")
    expect(page.get_by_text("No match for this filter")).to_be_visible()
    page.goto(f"{console.url}/runs/arith-carry-2")
    expect(page.get_by_text("Live events")).to_be_visible()
    assert page.get_by_text("from elsewhere").count() == 0


def test_no_form_gets_through(
    hostile: Page, context: BrowserContext, console: Console, elsewhere: str
) -> None:
    for path in (STEER, "/session/end", "/session/cli", "/session"):
        with hostile.expect_navigation() as navigation:
            hostile.evaluate(FORM, [console.url + path, {"text": "x", "key": console.key}])
        assert navigation.value is not None and navigation.value.status == 403
        hostile.goto(elsewhere)
    still_signed_in(context, console)


def test_no_answer_can_be_read(hostile: Page, console: Console) -> None:
    for path in ("/v1/me", "/session", "/v1/agent-runs/rsi/runs", "/"):
        outcome = hostile.evaluate(FETCH, [console.url + path, "GET", "application/json", None])
        assert outcome == "blocked"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_socket_opens(hostile: Page, console: Console, host: str) -> None:
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    url = f"ws://{host}:{console.port}{path}"
    assert hostile.evaluate(SOCKET, url) == "refused"


def test_the_same_ways_are_open_to_an_own_page(context: BrowserContext, console: Console) -> None:
    """The refusals above are not for want of a working request."""
    page = still_signed_in(context, console)
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    assert page.evaluate(SOCKET, f"ws://127.0.0.1:{console.port}{path}") == "open"
    said = json.dumps({"text": "Prefer small steps."})
    assert page.evaluate(FETCH, [STEER, "POST", "application/json", said]) == "202"
