"""The console in a real browser: sign-in, both themes, phone, address, and what must not run."""

import contextlib
import re
import socket
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, TimeoutError, expect

from data.files import write_manifest
from tests.browser.conftest import HOSTILE, PATIENCE, Console

pytestmark = pytest.mark.browser

RUN = "/runs/arith-carry-1"
PAGES = {
    "runs": "/",
    "no-match": "/?q=nothing",
    "overview": RUN,
    "live": "/runs/arith-carry-2?tab=live",
    "evaluations": f"{RUN}?tab=evaluations",
    "rounds": f"{RUN}?tab=rounds",
    "audits": f"{RUN}?tab=audits",
    "directives": "/runs/arith-carry-2?tab=directives",
    "cost": "/runs/arith-carry-2?tab=cost",
    "start": "/start",
    "jobs": "/jobs",
    "job": "/jobs/arith-carry-1-r1",
    "checkpoints": "/checkpoints",
    "inference": "/inference",
    "train": "/train",
    "simulated": "/runs/carry-rehearsal-1?tab=evaluations",
}
CONNECTED = "window.socket && socket.connected"
GROUND = {"light": "rgb(246, 246, 243)", "dark": "rgb(17, 18, 20)"}


def choose(context: BrowserContext, console: Console, theme: str) -> None:
    context.add_cookies([{"name": "pawl_theme", "value": theme, "url": console.url}])


def ground(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def fits(page: Page) -> bool:
    """Whether nothing sticks out sideways, once the page has settled in its new width."""
    for _ in range(200):
        page.wait_for_timeout(150)
        if overflow(page) <= 0:
            return True
    return False


# Sign-in


def test_a_link_signs_in_once_and_the_form_takes_the_key(
    console: Console, browser: Browser
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(console.url + RUN)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.get_by_label("Key").fill("not the key")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("not known")
        page.get_by_label("Key").fill(console.key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="arith-carry-1")).to_be_visible()
        expect(page).to_have_url(console.url + RUN)
        (cookie,) = context.cookies()
        assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (
            f"pawl_{console.port}",
            True,
            "Strict",
        )


def test_a_used_link_says_where_to_get_a_new_one(
    console: Console, browser: Browser, session_cookie: dict[str, str]
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto((console.home / "link").read_text())  # used by session_cookie
        expect(page.get_by_role("alert")).to_contain_text("used already")
        expect(page.get_by_text("python3 run.py link")).to_be_visible()


def test_a_link_on_another_site_still_leads_in(console: Console, context: BrowserContext) -> None:
    page = context.new_page()
    elsewhere = f'<a href="{console.url}{RUN}">look at this run</a>'
    page.route(
        "http://elsewhere.example/",
        lambda route: route.fulfill(body=elsewhere, content_type="text/html"),
    )
    page.goto("http://elsewhere.example/")
    page.get_by_text("look at this run").click()
    expect(page.get_by_role("heading", name="arith-carry-1")).to_be_visible()


def test_signing_out_leads_to_the_sign_in_page_everywhere(
    console: Console, browser: Browser
) -> None:
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page, other = context.new_page(), context.new_page()
        page.goto(console.url)
        page.get_by_label("Key").fill(console.key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Model loops")).to_be_visible()
        other.goto(console.url + RUN)
        expect(other.get_by_text("Live events")).to_be_visible()
        other.wait_for_function(CONNECTED)
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        other.wait_for_url("**/sign-in**", timeout=PATIENCE)


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_in_a_theme_on_desk_and_phone(
    console: Console, context: BrowserContext, page: Page, theme: str, tmp_path: Path
) -> None:
    choose(context, console, theme)
    for name, path in PAGES.items():
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(console.url + path)
        expect(page.locator(".pw-head")).to_be_visible()
        page.wait_for_function(CONNECTED)
        assert ground(page) == GROUND[theme]
        assert fits(page), name
        page.screenshot(path=tmp_path / f"{name}-{theme}.png")
        page.set_viewport_size({"width": 390, "height": 844})
        assert fits(page), f"{name} on a phone"
        page.screenshot(path=tmp_path / f"{name}-{theme}-phone.png")
    assert len(list(tmp_path.glob("*.png"))) == 2 * len(PAGES)


@pytest.mark.parametrize(
    ("system", "stored", "shown"),
    [("light", "dark", "dark"), ("dark", "light", "light"), ("dark", None, "dark")],
)
def test_the_first_paint_has_the_stored_theme(
    console: Console,
    browser: Browser,
    session_cookie: Any,
    system: Any,
    stored: str | None,
    shown: str,
) -> None:
    held: list[Route] = []
    slow = True

    def line(route: Route) -> None:
        if slow:
            held.append(route)
        else:
            route.continue_()

    with browser.new_context(color_scheme=system) as context:
        context.add_cookies([session_cookie])
        if stored:
            choose(context, console, stored)
        page = context.new_page()
        page.route(re.compile(r"\.js$"), line)
        page.goto(console.url, wait_until="commit")
        page.wait_for_selector("#app", state="attached")
        page.wait_for_function("document.styleSheets.length > 0")
        assert ground(page) == GROUND[shown]  # no script file has arrived yet
        slow = False
        for route in held:
            route.continue_()
        expect(page.get_by_role("heading", name="Model loops")).to_be_visible()
        assert ground(page) == GROUND[shown]


def test_the_theme_button_goes_round_and_is_remembered(
    console: Console, browser: Browser, session_cookie: Any
) -> None:
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        context.add_cookies([session_cookie])
        page = context.new_page()
        page.goto(console.url + RUN)
        button = page.locator(".q-drawer [data-pawl-theme]")
        expect(button).to_have_attribute("aria-label", "Theme: auto")
        button.click()
        expect(button).to_have_attribute("aria-label", "Theme: light")
        button.click()
        assert ground(page) == GROUND["dark"]
        page.reload()
        expect(button).to_have_attribute("aria-label", "Theme: dark")
        assert ground(page) == GROUND["dark"]


# Address, keyboard, time


def test_tabs_live_in_the_address_and_back_works(console: Console, page: Page) -> None:
    visit(page, console.url + RUN)
    page.get_by_role("tab", name="Evaluations").click()
    expect(page.get_by_text("Versions by suite")).to_be_visible()
    expect(page).to_have_url(f"{console.url}{RUN}?tab=evaluations")
    page.get_by_role("tab", name="Rounds").click()
    expect(page.get_by_role("button", name="Details of round 1")).to_be_visible()
    expect(page).to_have_url(f"{console.url}{RUN}?tab=rounds")
    page.go_back()
    expect(page.get_by_text("Versions by suite")).to_be_visible()
    expect(page).to_have_url(f"{console.url}{RUN}?tab=evaluations")
    page.reload()
    page.wait_for_function(CONNECTED)
    expect(page.get_by_text("Versions by suite")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("Live events")).to_be_visible()
    expect(page).to_have_url(console.url + RUN)


def test_search_and_filter_live_in_the_address_and_survive_a_reload(
    console: Console, page: Page
) -> None:
    visit(page, console.url)
    page.get_by_role("button", name="Finished").click()
    expect(page.get_by_text("1–2 of 2")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("arith")
    expect(page.get_by_text("1–1 of 1")).to_be_visible()
    page.wait_for_url("**/?q=arith&state=finished")
    page.reload()
    expect(page.get_by_text("1–1 of 1")).to_be_visible()
    page.get_by_role("link", name="arith-carry-1").click()
    expect(page.get_by_role("heading", name="arith-carry-1")).to_be_visible()


def test_the_details_of_a_round_open_by_keyboard(console: Console, page: Page) -> None:
    visit(page, f"{console.url}{RUN}?tab=rounds")
    button = page.get_by_role("button", name="Details of round 1")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Rows by family")).to_be_visible()
    expect(button).to_have_attribute("aria-expanded", "true")


def test_times_are_shown_in_the_browsers_zone(
    console: Console, browser: Browser, session_cookie: Any
) -> None:
    with browser.new_context(timezone_id="Asia/Tokyo") as context:
        context.add_cookies([session_cookie])
        page = context.new_page()
        page.goto(console.url + RUN)
        shown = page.locator(".pw-facts time").first
        moment = datetime.fromisoformat(str(shown.get_attribute("datetime")))
        there = moment.astimezone(ZoneInfo("Asia/Tokyo"))
        expect(shown).to_have_text(f"{there.day} {there:%b %Y, %H:%M:%S}")


def test_a_narrow_list_shows_cards_and_all_columns_on_demand(console: Console, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, console.url)
    expect(page.locator(".pw-rcard").first).to_be_visible()
    page.get_by_role("button", name="All columns").click()
    expect(page.get_by_role("columnheader", name="Best version")).to_be_visible()
    assert fits(page)  # the table scrolls inside its card


def visit(page: Page, url: str) -> None:
    """Open a page and wait until it answers: what is typed before that is not heard."""
    page.goto(url)
    page.wait_for_function(CONNECTED)


TYPE_AT_ONCE = """
const timer = setInterval(() => {
  const field = document.querySelector('[aria-label="Run id"]');
  if (!field) return;
  clearInterval(timer);
  field.value = "by-hand-1";
  field.dispatchEvent(new Event("input", {bubbles: true}));
}, 1);
"""


def test_what_is_typed_before_the_connection_stands_stays(console: Console, page: Page) -> None:
    page.add_init_script(TYPE_AT_ONCE)
    visit(page, f"{console.url}/start")
    expect(page.get_by_text("el job run start by-hand-1")).to_be_visible()
    page.get_by_label("Brief").fill("Learn sums that carry.")
    expect(page.get_by_text("--brief 'Learn sums that carry.'")).to_be_visible()
    expect(page.get_by_label("Run id")).to_have_value("by-hand-1")


def test_a_run_is_started_steered_and_stopped_by_keyboard_and_phone(
    console: Console, page: Page
) -> None:
    visit(page, f"{console.url}/start")
    page.get_by_label("Run id").fill("by-hand-1")
    start = page.get_by_role("button", name="Start")
    start.focus()
    page.keyboard.press("Enter")
    brief = page.get_by_label("Brief")
    expect(page.get_by_text("brief: give 1 to 4000")).to_be_visible()
    expect(brief).to_be_focused()
    page.keyboard.type("Learn sums that carry.")
    start.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="by-hand-1")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, page.url)  # as a phone opens it: a page is laid out for the width it begins with
    foot = page.locator(".pw-footbar")
    foot.get_by_role("button", name="Steer").click()
    page.get_by_label("Steer", exact=True).fill("Short answers.")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("queued, waits for the next turn")).to_be_visible()
    foot.get_by_role("button", name="Stop…").click()
    expect(page.get_by_text("The run ends at once.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("The run ends at once.")).to_be_hidden()


def test_an_action_is_chosen_in_the_menu_of_a_row(console: Console, page: Page) -> None:
    visit(page, f"{console.url}/?q=arith-carry-1")
    chosen = page.get_by_text("New from this")
    for _ in range(3):  # a row that is drawn anew meanwhile closes its menu
        page.get_by_role("button", name="Actions of arith-carry-1").click()
        with contextlib.suppress(TimeoutError):
            chosen.wait_for(timeout=20_000)
            break
    chosen.click()
    expect(page.get_by_label("Brief")).to_have_value("Learn sums that carry.")
    expect(page.get_by_label("Run id")).to_have_value("arith-carry-3")


def test_the_best_version_comes_as_an_archive(console: Console, page: Page) -> None:
    folder = console.home / "checkpoints" / "9f3e1c0ffee"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    write_manifest(folder)
    visit(page, f"{console.url}/runs/arith-carry-1")
    page.get_by_role("button", name="More actions").first.click()
    with page.expect_download() as download:
        page.get_by_text("Download candidate-1").click()
    assert download.value.suggested_filename == "arith-carry-1-candidate-1.zip"
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.namelist() == ["adapter_config.json"]


# What must not happen


@pytest.mark.parametrize(
    "tab", ["overview", "evaluations", "rounds", "audits", "directives", "cost"]
)
def test_what_models_and_people_write_never_runs(console: Console, page: Page, tab: str) -> None:
    visit(page, f"{console.url}/runs/hostile-1?tab={tab}")
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    if tab == "rounds":
        page.get_by_role("button", name="Details of round 1").click()
        expect(page.get_by_text("Rows by family")).to_be_visible()
    if tab == "audits":
        page.get_by_role("button", name="Reasons of leak, round 1").click()
        expect(page.get_by_text("checked for hostile-1")).to_be_visible()
    page.wait_for_timeout(300)
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0
    assert "54439" not in page.locator(".q-page").inner_text().split()
    page.goto(f"{console.url}/?q=hostile")
    expect(page.get_by_text("hostile-1")).to_be_visible()
    assert page.evaluate("window.pwned") is None


def test_a_page_cannot_be_framed(console: Console, context: BrowserContext) -> None:
    page = context.new_page()
    frame = f'<iframe src="{console.url}/sign-in"></iframe>'
    page.route(
        "http://elsewhere.example/",
        lambda route: route.fulfill(body=frame, content_type="text/html"),
    )
    page.goto("http://elsewhere.example/")
    page.wait_for_timeout(300)
    assert "Sign in" not in "".join(f.content() for f in page.frames)


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}", 101),
        ("evil.example", "http://evil.example", 403),
        ("127.0.0.1:{port}", "http://evil.example", 403),
        ("127.0.0.1:{port}", "null", 403),
    ],
)
def test_a_foreign_site_gets_no_socket(
    console: Console, session_cookie: dict[str, str], host: str, origin: str, status: int
) -> None:
    headers = {
        "Host": host.format(port=console.port),
        "Origin": origin.format(port=console.port),
        "Cookie": f"{session_cookie['name']}={session_cookie['value']}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    assert request_status(console, path, headers) == status


def test_no_cookie_gets_no_socket(console: Console) -> None:
    host = f"127.0.0.1:{console.port}"
    headers = {"Host": host, "Origin": f"http://{host}", "Connection": "Upgrade"}
    headers |= {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    headers |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    assert request_status(console, path, headers) == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1", "Origin": "http://evil.example"}, 403),
        ({"Host": "127.0.0.1", "Origin": "null"}, 403),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "localhost:1"}, 200),
    ],
)
def test_a_foreign_site_gets_no_page(
    console: Console, session_cookie: dict[str, str], headers: dict[str, str], status: int
) -> None:
    cookie = {"Cookie": f"{session_cookie['name']}={session_cookie['value']}"}
    assert request_status(console, "/", headers | cookie) == status


def request_status(console: Console, path: str, headers: dict[str, str]) -> int:
    """The status that a request with exactly these headers gets."""
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    with socket.create_connection(("127.0.0.1", console.port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        first_line = connection.recv(64).split(b"\r\n")[0]
    return int(first_line.split()[1])
