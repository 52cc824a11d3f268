"""Settings in a real browser: keys, people, connect, one's own password, a command line's request."""

import hashlib
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE, Console
from tests.server.process import status_with

pytestmark = pytest.mark.browser

PASSWORD = "correct horse battery"


@pytest.fixture
def desk(page: Page, console: Console) -> Callable[[str], Page]:
    """Opens a page below Settings."""

    def open_page(name: str) -> Page:
        page.goto(f"{console.url}/settings/{name}")
        page.wait_for_function("window.socket && socket.connected")
        return page

    return open_page


@pytest.fixture
def stranger(browser: Browser) -> Iterator[BrowserContext]:
    """Another browser, not signed in."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as made:
        yield made


def status_of(console: Console, key: str) -> int:
    return status_with(f"{console.url}/v1/no-such-path", key)


def add_person(page: Page, name: str, role: str) -> None:
    page.get_by_role("button", name="Add a person").click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("radio", name=role).click()
    page.get_by_label("Password, at least 12 characters").fill(PASSWORD)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("row", name=name)).to_contain_text(role)


def sign_in(page: Page, console: Console, name: str, path: str = "/") -> None:
    page.goto(console.url + path)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.locator("form").first.get_by_role("button", name="Sign in").click()


def test_a_key_is_shown_once_works_and_is_revoked(
    console: Console, desk: Callable[[str], Page]
) -> None:
    page = desk("keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("name:")
    page.get_by_label("Name").fill("nightly")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("shown this once")).to_be_visible()
    key = page.locator(".q-dialog .pw-code").inner_text()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    page.get_by_role("button", name="I have copied it").click()
    row = page.get_by_role("row", name="nightly")
    expect(row).to_contain_text("Project automation")
    expect(page.locator(".q-dialog")).to_have_count(0)
    assert key not in page.content()
    assert status_of(console, key) == 404
    page.get_by_role("button", name="Revoke nightly").click()
    page.get_by_role("button", name="Revoke", exact=True).click()
    expect(row).to_contain_text("Revoked")
    assert status_of(console, key) == 401


def test_a_person_is_added_given_another_role_and_removed(
    console: Console, desk: Callable[[str], Page], stranger: BrowserContext
) -> None:
    page = desk("people")
    add_person(page, "ann", "Developer")
    theirs = stranger.new_page()
    sign_in(theirs, console, "ann")
    expect(theirs.get_by_text("Developer")).to_be_visible()
    page.get_by_role("button", name="Role of ann").click()
    page.get_by_role("radio", name="Viewer").click()
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_role("row", name="ann")).to_contain_text("Viewer")
    theirs.wait_for_url("**/sign-in**", timeout=PATIENCE)  # they sign in anew
    sign_in(theirs, console, "ann", "/settings/people")
    expect(theirs.get_by_role("alert")).to_contain_text("lacks the capability admin")
    assert theirs.get_by_role("link", name="People").count() == 0
    page.get_by_role("button", name="Remove of ann").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_role("row", name="ann")).to_have_count(0)
    theirs.wait_for_url("**/sign-in**", timeout=PATIENCE)


def test_a_password_is_changed_by_its_person(
    console: Console, desk: Callable[[str], Page], stranger: BrowserContext
) -> None:
    add_person(desk("people"), "bob", "Viewer")
    page = stranger.new_page()
    sign_in(page, console, "bob", "/settings/account")
    page.wait_for_function("window.socket && socket.connected")
    change = page.get_by_role("button", name="Change password")
    page.get_by_label("Current password").fill("not the password")
    for label in ("New password, at least 12 characters", "New password, again"):
        page.get_by_label(label).fill("another horse battery")
    change.click()
    expect(page.get_by_role("alert")).to_contain_text("not your current password")
    page.get_by_label("Current password").fill(PASSWORD)
    change.click()
    expect(page.get_by_text("Your password is changed.")).to_be_visible()


def test_connect_has_lines_with_the_address_of_this_server(
    console: Console, desk: Callable[[str], Page]
) -> None:
    page = desk("connect")
    mcp = f"{console.url}/v1/agent-runs/rsi/mcp"
    bearer = "Authorization: Bearer $ENVLOOP_API_KEY"
    for line in (
        f'claude mcp add --transport http pawl {mcp} --header "{bearer}"',
        f'url = "{mcp}"',
        f"el auth login --base-url {console.url}",
        f"export ENVLOOP_BASE_URL={console.url}",
        f"ssh -N -L {console.port}:127.0.0.1:{console.port}",
    ):
        expect(page.get_by_text(line)).to_be_visible()


def test_a_command_line_is_approved_with_its_code(
    console: Console, context: BrowserContext
) -> None:
    def send(action: str, body: dict[str, str]) -> dict[str, str]:
        request = urllib.request.Request(
            f"{console.url}/v1/auth/cli/{action}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, str] = json.load(answer)
            return found

    key, token = f"epk_{secrets.token_hex(32)}", secrets.token_hex(16)
    texts = {"key_hash": key, "poll_hash": token, "code_hash": "ABCD2345"}
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    grant = send("start", hashes)
    page = context.new_page()
    page.goto(grant["verification_uri"])
    page.get_by_label("Confirmation code").fill("abcd2345")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("Go back to the terminal")
    poll = {"grant_id": grant["grant_id"], "poll_token": token}
    assert send("poll", poll)["status"] == "approved"
    assert status_of(console, key) == 404


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_settings_fit_on_desk_and_phone(
    console: Console, context: BrowserContext, page: Page, theme: str
) -> None:
    context.add_cookies([{"name": "pawl_theme", "value": theme, "url": console.url}])
    for name in ("keys", "people", "connect", "account"):
        for width, height in ((1440, 900), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            page.goto(f"{console.url}/settings/{name}")
            expect(page.locator(".pw-head")).to_be_visible()
            page.wait_for_function("window.socket && socket.connected")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{name} at {width}"
