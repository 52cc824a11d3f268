"""The console below a base path, as a proxy shows it: nothing leads out of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from app.administration import administer
from tests.server.process import Server

pytestmark = pytest.mark.browser


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path)
    administer(one.home, "setting.set", name="root_path", value="/lab")
    yield one
    one.close()


def test_every_way_stays_below_the_base_path(server: Server, browser: Browser) -> None:
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.removeprefix(server.url)))
        page.goto(f"{server.url}/lab/")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.get_by_label("Key").fill(server.home.owner_key.read_text().strip())
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Model loops")).to_be_visible()
        page.wait_for_function("window.socket && socket.connected")
        page.get_by_role("link", name="Keys").click()
        page.wait_for_url(f"{server.url}/lab/settings/keys")
        page.get_by_role("link", name="Connect").click()
        mcp = f"{server.url}/lab/v1/agent-runs/rsi/mcp"
        expect(page.get_by_text(mcp).first).to_be_visible()
        page.get_by_role("link", name="Model").first.click()
        page.wait_for_url(f"{server.url}/lab/")
        page.wait_for_function("window.socket && socket.connected")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{server.url}/lab/sign-in")
        assert [path for path in asked if not path.startswith(("/lab/", "data:"))] == []
