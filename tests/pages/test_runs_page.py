"""The list of runs: states in words, search and filter, pages, and what stands in for no rows."""

from typing import Any

from nicegui import ui
from nicegui.testing import User
from sqlmodel import select

from app.access import Access
from data.store import Store
from data.tables import Run
from data.tables import User as Person
from tests import sample_run


def rows(user: User) -> list[dict[str, Any]]:
    (table,) = user.find(ui.table).elements
    return table.rows


def names(user: User) -> list[str]:
    return [row["run"] for row in rows(user)]


def address(user: User) -> str | None:
    from pages.browser import Address

    (element,) = user.find(Address).elements
    url: str | None = element.props["url"]
    return url


async def test_the_newest_run_stands_first_with_every_state_in_words(console: User) -> None:
    await console.open("/")
    assert names(console)[:3] == ["arith-carry-2", "arith-carry-1", "carry-rehearsal-1"]
    words = {row["run"]: row["word"] for row in rows(console)}
    assert words == {
        "arith-carry-2": "Running",
        "arith-carry-1": "Finished",
        "carry-rehearsal-1": "Finished",
        "arith-borrow-2": "Failed",
        "spatial-grid-2": "Stopped by cap",
        "spatial-grid-1": "Paused",
        "code-strings-1": "Starting",
    }


async def test_a_number_too_long_to_be_one_counts_for_nothing(console: User) -> None:
    await console.open(f"/?limit={'9' * 5000}")
    assert len(names(console)) == 7


async def test_a_row_says_reason_score_change_and_spend(console: User) -> None:
    await console.open("/")
    running, finished, rehearsal, *_ = rows(console)
    assert running["reason"] == "Round 2: train, 212 of 345 steps"
    assert (running["round"], running["spent"], running["cap"]) == ("2 of 5", "$1.05", "$5.00")
    assert (finished["score"], finished["change"], finished["tone"]) == (
        "0.417",
        "+0.212",
        "pw-good",
    )
    assert (rehearsal["simulated"], rehearsal["score"], rehearsal["best"]) == (True, "—", "—")


async def test_a_state_filter_narrows_the_list_and_lives_in_the_address(console: User) -> None:
    await console.open("/")
    console.find(marker="state-finished").click()
    await console.should_see("1–2 of 2")
    assert names(console) == ["arith-carry-1", "carry-rehearsal-1"]
    assert address(console) == "/?state=finished"


async def test_an_address_brings_its_filter_with_it(console: User) -> None:
    await console.open("/?state=active&q=arith")
    assert names(console) == ["arith-carry-2"]
    (field,) = console.find(ui.input).elements
    assert field.value == "arith"


async def test_a_search_narrows_by_name(console: User) -> None:
    await console.open("/")
    console.find(ui.input).type("carry")
    await console.should_see("1–3 of 3")
    assert address(console) == "/?q=carry"


async def test_no_match_is_not_an_empty_project(console: User) -> None:
    await console.open("/?q=nothing")
    await console.should_see("No match for this filter")
    await console.should_not_see("No runs in this project yet")
    console.find("Clear the filter").click()
    await console.should_see("1–7 of 7")
    assert address(console) == "/"


async def test_going_back_shows_the_list_of_that_address(console: User) -> None:
    await console.open("/?state=failed")
    from pages.browser import Address

    console.find(Address).trigger("back", "/?q=spatial")
    await console.should_see("1–2 of 2")
    assert names(console) == ["spatial-grid-2", "spatial-grid-1"]


async def test_pages_go_forth_and_back(empty: User, store: Store) -> None:
    def many(session: Any) -> None:
        sample_run.small_runs(session)
        for number in range(23):
            run = session.get_one(Run, "arith-borrow-2").model_dump()
            at = sample_run.ago(minutes=number)
            session.add(Run(**run | {"id": f"many-{number:02}", "created_at": at}))

    store.write(many)
    await empty.open("/?limit=10")
    await empty.should_see("1–10 of 27")
    assert names(empty)[0] == "many-00"
    empty.find(marker="next-page").click()
    await empty.should_see("11–20 of 27")
    assert names(empty)[0] == "many-10"
    empty.find(marker="next-page").click()
    await empty.should_see("21–27 of 27")
    empty.find(marker="previous-page").click()
    await empty.should_see("11–20 of 27")


async def test_a_refused_cursor_is_said_and_can_be_left(console: User) -> None:
    await console.open("/?cursor=junk")
    await console.should_see("cursor: not one that this server gave out")
    console.find("Retry").click()
    await console.should_see("1–7 of 7")


async def test_a_project_without_runs_says_how_to_start(empty: User) -> None:
    await empty.open("/")
    await empty.should_see("No runs in this project yet")
    await empty.should_see("run.py demo")
    await empty.should_not_see(ui.table)


async def test_one_click_starts_the_demo(empty: User, store: Store) -> None:
    await empty.open("/")
    empty.find("Run the demo").click()
    await empty.should_see("Jobs of this run")
    with store.read() as session:
        (run,) = session.exec(select(Run)).all()
    assert (run.state, run.actor, run.rounds_target) == ("starting", "owner", 2)


async def test_a_viewer_cannot_start_the_demo(empty: User, store: Store) -> None:
    def demote(session: Any) -> None:
        session.get_one(Person, "owner").role = "viewer"

    store.write(demote)
    await empty.open("/")
    await empty.should_see("Viewer")
    (button,) = (b for b in empty.find(ui.button).elements if b.text == "Run the demo")
    assert not button.enabled


async def test_a_right_taken_away_after_the_page_was_opened_is_gone(
    empty: User, store: Store
) -> None:
    def demote(session: Any) -> None:
        session.get_one(Person, "owner").role = "viewer"

    await empty.open("/")
    store.write(demote)
    empty.find("Run the demo").click()
    await empty.should_see("No runs in this project yet")
    with store.read() as session:
        assert session.exec(select(Run)).first() is None


async def test_a_new_run_appears_by_itself(empty: User, store: Store) -> None:
    await empty.open("/")
    store.write(sample_run.simulated_run)
    await empty.should_see("1–1 of 1")


async def test_a_stranger_sees_nothing(console: User, access: Access) -> None:
    console.http_client.cookies.clear()
    answer = await console.http_client.get("/")
    assert answer.status_code == 303
    assert "arith-carry" not in answer.text
