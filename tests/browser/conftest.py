"""A real console server, and a headless Chromium that is signed in to it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.listening import free_port
from tests.server.process import is_listening

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120
PATIENCE = 60_000  # milliseconds, for what is to be seen; a loaded machine takes its time
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
expect.set_options(timeout=PATIENCE)
HOSTILE = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>{{7*7777}}`${1}`"


@dataclass(kw_only=True, slots=True, frozen=True)
class Console:
    """A running server: where it answers, its home, and its first sign-in link."""

    port: int
    home: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        return (self.home / "owner.key").read_text().strip()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The server of server.py in a process of its own."""
    home, port = tmp_path_factory.mktemp("console") / "home", free_port()
    log = home.parent / "log"
    command = [sys.executable, "-m", "tests.browser.server", home, port, "--hostile", HOSTILE]
    inherited = {n: v for n, v in os.environ.items() if not n.startswith(("PYTEST", "NICEGUI"))}
    with log.open("w") as output:
        server = subprocess.Popen(
            [str(word) for word in command], cwd=ROOT, env=inherited, stdout=output, stderr=output
        )
    try:
        made = Console(port=port, home=home)
        _wait_for(made, server, log)
        yield made
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=90)


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Chromium, closed with its module: its event loop would be in the way of the page tests."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def session_cookie(console: Console, browser: Browser) -> dict[str, str]:
    """The cookie of a sign-in by link, for every test that does not sign in itself."""
    with browser.new_context() as context:
        context.new_page().goto((console.home / "link").read_text())
        (cookie,) = [c for c in context.cookies() if c["name"] == f"pawl_{console.port}"]
    return {"name": cookie["name"], "value": cookie["value"], "url": console.url}


@pytest.fixture
def context(browser: Browser, session_cookie: dict[str, str]) -> Iterator[BrowserContext]:
    """A signed-in browser on a desk."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as made:
        made.set_default_timeout(PATIENCE)
        made.add_cookies([session_cookie])  # type: ignore[list-item]
        yield made


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails its test when the console logs an error or a warning."""
    opened = context.new_page()
    complaints: list[str] = []
    opened.on(
        "console",
        lambda m: complaints.append(m.text) if m.type in {"error", "warning"} else None,
    )
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    assert complaints == []


def _wait_for(console: Console, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_listening(console.url):  # the link is written before that
        if server.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"the server did not start:\n{log.read_text()}")
        time.sleep(0.1)
