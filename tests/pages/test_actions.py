"""Steer, stop, resume and extend from the page: offered by state and right, refused in words."""

from collections.abc import Sequence
from typing import Any

import pytest
from nicegui import ElementFilter, ui
from nicegui.testing import User
from sqlmodel import select

from app.caller import ROLES, Caller
from app.service import Service
from data.events import append
from data.lifecycle import move
from data.store import Store
from data.tables import Control, Run, Steer
from pages import offers
from tests import sample_run
from tests.pages.conftest import demote, stop_looking, texts, until

RUNNING, FINISHED = "arith-carry-2", "arith-carry-1"
PAUSED, CAPPED, FAILED = "spatial-grid-1", "spatial-grid-2", "arith-borrow-2"


def controls(store: Store) -> Sequence[Control]:
    with store.read() as session:
        return session.exec(select(Control)).all()


def steers(store: Store, run: str = RUNNING) -> list[str]:
    with store.read() as session:
        return [row.text for row in session.exec(select(Steer).where(Steer.run == run))]


def offered(user: User, where: str = "head") -> list[str]:
    """The actions that the page offers in its head or its foot."""
    with user:
        actions = ("resume", "steer", "stop", "extend")
        return [name for name in actions if list(ElementFilter(marker=f"{where}-{name}"))]


def confirm(user: User) -> None:
    """Click the dialog's own button, twice as an impatient person does."""
    button = user.find(marker="confirm")
    button.click()
    button.click()


def number_field(user: User, name: str) -> ui.number:
    (field,) = user.find(marker=f"field-{name}").elements
    assert isinstance(field, ui.number)
    return field


@pytest.mark.parametrize(
    ("run", "actions"),
    [
        (RUNNING, ["steer", "stop", "extend"]),
        (PAUSED, ["resume", "steer", "stop", "extend"]),
        ("code-strings-1", ["steer", "stop", "extend"]),
        (FINISHED, ["extend"]),
        (CAPPED, ["resume", "extend"]),
        (FAILED, ["resume", "extend"]),
    ],
)
async def test_a_run_offers_what_its_state_allows(
    console: User, run: str, actions: list[str]
) -> None:
    await console.open(f"/runs/{run}")
    assert offered(console) == actions
    assert offered(console, "foot") == actions


async def test_a_viewer_sees_no_action(console: User, store: Store) -> None:
    demote(store)
    await console.open(f"/runs/{RUNNING}")
    await console.should_see("Live events")
    assert offered(console) == offered(console, "foot") == []
    await console.open("/")
    await console.should_not_see("Start a run")


def test_what_a_caller_lacks_is_said(store: Store, access: object) -> None:
    sample_run.fill(store)
    rights = ROLES["developer"] - {"training.stop"}
    caller = Caller(
        actor="key:night",
        workspace_id="ws_local",
        project_id="prj_local",
        capabilities=rights,
    )
    run = Service(store, "CPU").run_detail(caller, RUNNING)
    (stop,) = (one for one in offers.offers(run, caller) if one.action == "stop")
    assert stop.why_not == "key:night lacks the capability training.stop"


async def test_steer_says_when_it_is_delivered_and_shows_it_queued(
    console: User, store: Store
) -> None:
    await console.open(f"/runs/{RUNNING}")
    console.find(marker="head-steer").click()
    await console.should_see("delivered when round 3 is planned")
    await console.should_see("reads no text")
    console.find(marker="steer-text").type("Try <i>longer</i> chains.")
    confirm(console)
    await until(lambda: "Try <i>longer</i> chains." in texts(console))
    assert steers(store).count("Try <i>longer</i> chains.") == 1


async def test_a_blank_steer_is_refused_beside_its_field(console: User, store: Store) -> None:
    before = steers(store)
    await console.open(f"/runs/{RUNNING}")
    console.find(marker="head-steer").click()
    await console.should_see("Steer arith-carry-2")
    confirm(console)
    (field,) = console.find(marker="steer-text").elements
    assert isinstance(field, ui.textarea)
    await until(lambda: field.error)
    assert field.error == "text: give 1 to 4000 characters that are not all blank"
    assert steers(store) == before


async def test_stop_says_what_happens_and_is_asked_once(console: User, store: Store) -> None:
    await console.open(f"/runs/{RUNNING}")
    console.find(marker="head-stop").click()
    for words in ("The run ends after round 2", "It can be resumed", "can still bill up to $0.06"):
        await console.should_see(words)
    stop_looking(console)
    confirm(console)
    await console.should_see("Stopping")
    (control,) = controls(store)
    assert (control.action, control.author) == ("stop", "owner")
    (button,) = console.find(marker="head-stop").elements
    assert isinstance(button, ui.button)
    assert not button.enabled


async def test_a_paused_run_stops_at_once(console: User) -> None:
    await console.open(f"/runs/{PAUSED}")
    console.find(marker="head-stop").click()
    await console.should_see("The run ends at once.")


async def test_resume_goes_on_and_the_page_looks_again(console: User, store: Store) -> None:
    await console.open(f"/runs/{CAPPED}")
    await console.should_not_see(ui.timer)
    console.find(marker="head-resume").click()
    await console.should_see("raise that cap with Extend first")
    confirm(console)
    await console.should_see("Running")

    def take_up(session: Any) -> None:
        session.exec(select(Control)).one().status = "done"
        move(session, session.get_one(Run, CAPPED), "running", None)
        append(session, CAPPED, "message", "run goes on where it was")

    store.write(take_up)
    await console.should_see("run goes on where it was")


async def test_extend_sets_rounds_and_raises_caps(console: User, store: Store) -> None:
    await console.open(f"/runs/{FINISHED}")
    console.find(marker="head-extend").click()
    await console.should_see("Caps can be raised, never lowered.")
    fields = {name: number_field(console, name) for name in ("rounds", "max_model_cost_usd")}
    assert (fields["rounds"].value, fields["max_model_cost_usd"].value) == (3, 5.0)
    fields["rounds"].value = 6
    fields["max_model_cost_usd"].value = 12.5
    confirm(console)
    await console.should_see("of $12.50")
    (control,) = controls(store)
    assert (control.action, control.rounds) == ("extend", 6)
    assert control.limits == {"max_model_cost_usd": 12.5}
    await console.should_see("2 of 6")


async def test_a_lowered_cap_is_refused_beside_its_field(console: User, store: Store) -> None:
    await console.open(f"/runs/{FINISHED}")
    console.find(marker="head-extend").click()
    await console.should_see("Caps can be raised, never lowered.")
    field = number_field(console, "max_model_cost_usd")
    field.value = 1
    confirm(console)
    await until(lambda: field.error)
    assert field.error is not None
    assert "may be raised, never lowered" in field.error
    assert controls(store) == []


async def test_what_the_state_does_not_allow_any_more_is_told(console: User, store: Store) -> None:
    await console.open(f"/runs/{RUNNING}")
    console.find(marker="head-stop").click()
    await console.should_see("The run ends after round 2")
    store.write(lambda s: move(s, s.get_one(Run, RUNNING), "finished", "5 rounds, 1 promoted"))
    confirm(console)
    await console.should_see("run arith-carry-2 is finished: there is nothing to stop")


@pytest.mark.parametrize(
    ("action", "title"), [("steer", "Steer arith"), ("stop", "Stop arith"), ("extend", "Extend a")]
)
async def test_a_right_taken_away_is_gone_in_the_handler_too(
    console: User, store: Store, action: str, title: str
) -> None:
    before = steers(store)
    await console.open(f"/runs/{RUNNING}")
    console.find(marker=f"head-{action}").click()
    await console.should_see(title)
    demote(store)
    if action == "steer":
        console.find(marker="steer-text").type("Now.")
    confirm(console)
    await console.should_see("owner lacks the capability training.run")
    assert (controls(store), steers(store)) == ([], before)


async def test_the_menu_of_a_row_offers_what_its_run_allows(console: User) -> None:
    await console.open("/")
    (table,) = console.find(ui.table).elements
    menus = {row["run"]: [one["action"] for one in row["menu"]] for row in table.rows}
    assert menus[RUNNING] == ["stop", "new", "deploy"]
    assert menus[PAUSED] == ["resume", "stop", "new"]
    assert menus[FINISHED] == ["new", "deploy"]
    assert menus[CAPPED] == ["resume", "new"]


async def test_a_run_is_stopped_from_its_row(console: User, store: Store) -> None:
    await console.open("/")
    console.find(ui.table).trigger("act", {"action": "stop", "run": RUNNING})
    await console.should_see("Stop arith-carry-2?")
    confirm(console)
    await until(lambda: controls(store))
    (table,) = console.find(ui.table).elements
    await until(lambda: {row["run"]: row["word"] for row in table.rows}[RUNNING] == "Stopping")


async def test_a_forged_row_event_does_nothing(console: User, store: Store) -> None:
    await console.open("/")
    console.find(ui.table).trigger("act", {"action": "steer", "run": RUNNING})
    console.find(ui.table).trigger("act", {"action": "stop", "run": "../../other"})
    await console.should_see("there is no run ../../other")
    assert controls(store) == []
