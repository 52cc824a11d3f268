"""A person deploys a run's best version in the console and talks to it, beside the base model."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from app.admin import call_admin
from engine.types import ModelRef
from tests.models import lay_base
from tests.server.deployed import RUN, SYSTEM, lay_version
from tests.server.process import Server

pytestmark = pytest.mark.browser

TUNED, BASE = f"{RUN}/candidate-1", f"{RUN}/base"
WAKING = 90_000  # milliseconds; a loaded machine takes its time to read a model
FIGURES = re.compile(r"\d+ tokens? · \d")
PLACED = """() => {
    const answers = [...document.querySelectorAll(".pw-answer")];
    const [one, two] = answers.map(answer => answer.getBoundingClientRect());
    return %s;
}"""


@pytest.fixture
def page(base: ModelRef, browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """A signed-in browser on a real server whose home has a run with a trained version."""
    home = tmp_path / "home"
    home.mkdir()
    lay_base(home, base)
    lay_version(home, base)
    server = Server(home)
    try:
        with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
            opened = context.new_page()
            complaints: list[str] = []
            opened.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
            opened.on("pageerror", lambda error: complaints.append(str(error)))
            opened.goto(str(call_admin(server.home.admin_socket, "link")))
            opened.goto(f"{server.url}/runs/{RUN}")
            opened.wait_for_function("window.socket && socket.connected")
            yield opened
            assert complaints == []
    finally:
        server.close()


def test_the_best_version_is_deployed_and_answers_beside_its_base(page: Page) -> None:
    page.get_by_role("button", name="More actions").click()
    page.get_by_text("Deploy candidate-1…").click()
    expect(page.get_by_text(f"Deploy {BASE} too, to compare in the chat")).to_be_visible()
    page.get_by_role("button", name="Deploy", exact=True).click()
    expect(page.get_by_role("heading", name=TUNED)).to_be_visible()
    page.wait_for_function("window.socket && socket.connected")
    expect(page.get_by_label("System prompt")).to_have_value(SYSTEM)
    page.get_by_label("Max tokens").fill("6")
    expect(page.get_by_label("Compare with")).to_have_value(BASE)
    question = page.get_by_role("textbox", name="Question")
    question.fill("What is 17 + 25?")
    question.press("Enter")
    answers = page.locator(".pw-answer")
    expect(answers).to_have_count(2)
    for number, name in enumerate((TUNED, BASE)):
        expect(answers.nth(number)).to_contain_text(name)
        expect(answers.nth(number)).to_contain_text(FIGURES, timeout=WAKING)
    said = page.locator(".pw-said").all_text_contents()
    assert len(said) == 2
    assert all(text.strip() for text in said)
    expect(question).to_have_value("")

    page.wait_for_function(PLACED % "one.y === two.y && one.x < two.x")  # side by side
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("innerWidth === 390 && document.documentElement.scrollWidth <= 390")
    page.wait_for_function(PLACED % "one.x === two.x && one.y < two.y")  # one below the other
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("link", name="Inference").first.click()
    for name in (TUNED, BASE):
        row = page.get_by_role("row", name=name)
        expect(row).to_contain_text("Ready")
        expect(row).to_contain_text("1 call")
