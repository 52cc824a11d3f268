"""One run: header, tabs in the address, live overview, and what is not there."""

import asyncio
import json
from typing import Any

import pytest
from nicegui import Client, ui
from nicegui.testing import User
from sqlmodel import select

from app.access import Access, cookie_name
from data.events import append
from data.lifecycle import move
from data.store import Store
from data.tables import Event, Lease, Project, Run
from tests import sample_run
from tests.pages.conftest import PORT, stop_looking, texts, until

TABS = ["overview", "evaluations", "rounds", "audits", "directives", "cost"]
RUNNING, FINISHED, SIMULATED = "arith-carry-2", "arith-carry-1", "carry-rehearsal-1"


async def test_the_header_says_state_reason_and_facts(console: User) -> None:
    await console.open(f"/runs/{RUNNING}")
    for fact in ("Running", "Round 2: train, 212 of 345 steps", "2 of 5", "candidate-1"):
        await console.should_see(fact)
    for fact in ("0.417 dev", "+0.212", "CPU, 2 cores", "$1.05", "of $5.00"):
        await console.should_see(fact)


async def test_the_overview_shows_steps_and_the_phase(console: User) -> None:
    await console.open(f"/runs/{RUNNING}")
    seen = texts(console)
    steps = [
        text
        for text in seen
        if text in {"Baseline", "Find failures", "Build data", "Train", "Re-evaluate", "Decide"}
    ]
    assert steps == ["Baseline", "Find failures", "Build data", "Train", "Re-evaluate", "Decide"]
    for text in ("Training", "212 of 345 steps", "61%", "student", "train"):
        assert text in seen
    assert "Longer carry chains; 62 of 120 fail there." in seen


async def test_events_stand_newest_first_with_who_and_what(console: User) -> None:
    await console.open(f"/runs/{RUNNING}")
    seen = texts(console)
    newest, oldest = seen.index("step 212 of 345, loss 0.412"), seen.index("run started")
    assert newest < oldest
    assert seen[newest - 1] == "student"


async def test_steers_carry_their_receipts(console: User) -> None:
    await console.open(f"/runs/{RUNNING}")
    await console.should_see("queued, waits for the next turn")
    await console.should_see("cited by plan, round 2: more tasks of that kind")
    assert "r2" in texts(console)  # the job


@pytest.mark.parametrize(
    ("asked", "shown", "hidden"),
    [
        ("", "Live events", "Versions by suite"),
        ("?tab=live", "Live events", "Versions by suite"),
        ("?tab=nonsense", "Live events", "Versions by suite"),
        ("?tab=evaluations", "Versions by suite", "Live events"),
        ("?tab=rounds", "each against the best before it", "Live events"),
    ],
)
async def test_the_address_chooses_the_tab(
    console: User, asked: str, shown: str, hidden: str
) -> None:
    await console.open(f"/runs/{FINISHED}{asked}")
    await console.should_see(shown)
    await console.should_not_see(hidden)


async def test_a_tab_goes_into_the_address_and_back_leaves_it(console: User) -> None:
    from pages.browser import Address

    await console.open(f"/runs/{FINISHED}")
    (tabs,) = console.find(ui.tabs).elements
    tabs.value = "rounds"
    await console.should_see("each against the best before it")
    (address,) = console.find(Address).elements
    assert address.props["url"] == f"/runs/{FINISHED}?tab=rounds"
    console.find(Address).trigger("back", f"/runs/{FINISHED}")
    await console.should_see("Live events")
    assert tabs.value == "overview"


@pytest.mark.parametrize("tab", TABS)
async def test_a_simulated_run_says_so_on_every_tab(console: User, tab: str) -> None:
    await console.open(f"/runs/{SIMULATED}?tab={tab}")
    await console.should_see("Simulated")
    await console.open(f"/runs/{FINISHED}?tab={tab}")
    await console.should_not_see("Simulated")


async def test_a_missing_run_and_a_foreign_one_look_the_same(console: User, store: Store) -> None:
    def other(session: Any) -> None:
        session.add(Project(id="prj_other", workspace_id="ws_local", name="Other"))
        session.flush()
        session.get_one(Run, "spatial-grid-1").project_id = "prj_other"

    store.write(other)
    pages = []
    for run in ("spatial-grid-1", "spatial-grid-9"):
        answer = await console.http_client.get(f"/runs/{run}")
        assert answer.status_code == 404
        pages.append(f"no run {run}" in answer.text and "Nothing is here" in answer.text)
    assert pages == [True, True]


async def test_an_unknown_address_keeps_the_frame_and_leads_back(console: User) -> None:
    answer = await console.http_client.get("/no/such/page")
    assert answer.status_code == 404
    for words in ("There is no page /no/such/page.", "All model loops", "CPU, 2 cores"):
        assert words in answer.text
    assert "This page doesn" not in answer.text


async def test_an_unknown_address_of_the_api_is_json(console: User) -> None:
    answer = await console.http_client.get("/v1/no/such/page")
    assert answer.status_code == 404
    assert answer.json() == {"code": "NOT_FOUND", "message": "there is no /v1/no/such/page here"}


async def test_the_device_box_follows_the_page(console: User, store: Store) -> None:
    await console.open(f"/runs/{RUNNING}")
    await console.should_see("Train, arith-carry-2")

    def end(session: Any) -> None:
        for lease in session.exec(select(Lease)).all():
            lease.state = "ended"

    store.write(end)
    await console.should_see("Idle")


async def test_what_happens_appears_until_the_run_has_ended(console: User, store: Store) -> None:
    await console.open(f"/runs/{RUNNING}")

    def end(session: Any) -> None:
        append(session, RUNNING, "message", "run finished: 5 rounds, 1 promoted")
        move(session, session.get_one(Run, RUNNING), "finished", "5 rounds, 1 promoted")

    store.write(end)
    await console.should_see("run finished: 5 rounds, 1 promoted")
    await console.should_see("Finished")
    store.write(lambda session: append(session, RUNNING, "message", "nobody looks any more"))
    await asyncio.sleep(3.3)
    await console.should_not_see("nobody looks any more", retries=1)


async def test_an_ended_run_is_not_asked_again(console: User) -> None:
    await console.open(f"/runs/{FINISHED}")
    await console.should_not_see(ui.timer)


async def test_the_newest_of_many_events_are_there_at_once(console: User, store: Store) -> None:
    def many(session: Any) -> None:
        for seq in range(13, 614):
            session.add(Event(run=FINISHED, seq=seq, kind="message", text=f"line {seq}"))

    store.write(many)
    await console.open(f"/runs/{FINISHED}")
    await console.should_see("line 613")
    await console.should_not_see("line 513")


async def test_a_sign_out_elsewhere_leads_to_the_sign_in_page(
    console: User, access: Access
) -> None:
    ui.page("/sign-in")(lambda: ui.label("the sign-in page"))
    await console.open(f"/runs/{RUNNING}")
    access.end_session(console.http_client.cookies[cookie_name(PORT)])
    await console.should_see("the sign-in page")


HOSTILE = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>{{7*7}}`${1}`"


@pytest.mark.parametrize("tab", TABS)
async def test_what_models_and_people_write_is_text(console: User, store: Store, tab: str) -> None:
    store.write(lambda session: sample_run.hostile_run(session, HOSTILE))
    await console.open(f"/runs/hostile-1?tab={tab}")
    await console.should_see(HOSTILE)  # the reason under the title
    page = await console.http_client.get(f"/runs/hostile-1?tab={tab}")
    assert "window.pwned=1</script>" not in page.text
    for element in console.find(ui.html).elements:
        assert "pwned" not in element.content


async def test_a_page_that_nobody_sees_does_not_ask(console: User, store: Store) -> None:
    client = await console.open(f"/runs/{RUNNING}")
    tell_visibility(client, False)
    await asyncio.sleep(0.1)
    store.write(lambda session: append(session, RUNNING, "message", "while nobody looked"))
    await asyncio.sleep(3.3)
    await console.should_not_see("while nobody looked", retries=1)
    stop_looking(console)  # from now on it looks because it is seen
    tell_visibility(client, True)
    await console.should_see("while nobody looked")


async def test_who_asks_for_a_look_during_another_gets_one_after_it(empty: User) -> None:
    """The one under way may have read before there was something to see."""
    from pages.live import Poll  # dropped from sys.modules between tests

    looks, go_on = 0, asyncio.Event()

    async def look() -> bool:
        nonlocal looks
        looks += 1
        await go_on.wait()
        return False

    await empty.open("/")
    with empty:
        poll = Poll(look, seconds=600)
    first = asyncio.create_task(poll.go_on())
    await until(lambda: looks)
    await poll.go_on()
    go_on.set()
    await first
    assert looks == 2


async def test_a_look_that_fails_after_one_that_saw_the_end_is_made_up_for(empty: User) -> None:
    from pages.live import Poll  # dropped from sys.modules between tests

    begun, go_on = asyncio.Event(), asyncio.Event()
    outcomes = [True, OSError("not now"), False]

    async def look() -> bool:
        begun.set()
        await go_on.wait()
        outcome = outcomes.pop()
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    await empty.open("/")
    with empty:
        poll = Poll(look, seconds=600)
    first = asyncio.create_task(poll.go_on())
    await begun.wait()
    await poll.go_on()
    go_on.set()
    with pytest.raises(OSError, match="not now"):
        await first
    await poll._tick()
    assert outcomes == []


def tell_visibility(client: Client, visible: bool) -> None:
    """What the browser sends when its tab is hidden or shown."""
    listeners = client.layout._event_listeners.values()
    (listener,) = (one for one in listeners if one.type == "pawlVisible")
    said = [json.dumps(visible)]
    client.handle_event({"id": client.layout.id, "listener_id": listener.id, "args": said})
