"""Starting a run from the console: the form, its refusals, the same from a terminal."""

import json
import shlex
from typing import Any

import pytest
from nicegui import ui
from nicegui.testing import User
from sqlmodel import select

from data.store import Store
from data.tables import Run
from engine.models.simulated import gateway_rows
from pages.ask import field_of
from pages.start_command import command, command_says_all, curl
from tests.pages.conftest import demote, texts, until


def field(user: User, name: str) -> Any:
    (found,) = user.find(marker=f"field-{name}").elements
    return found


def runs(store: Store) -> dict[str, Run]:
    with store.read() as session:
        return {row.id: row for row in session.exec(select(Run)).all()}


async def test_the_form_proposes_an_id_and_tells_the_presets_own_words(console: User) -> None:
    await console.open("/start")
    assert field(console, "run").value == "arith-1"
    await console.should_see("What a run gets when it names no preset")
    field(console, "preset").value = "demo"
    await console.should_see("The demo: a real loop in minutes on two CPU cores.")
    assert field(console, "rounds").props["placeholder"] == "2"


async def test_a_run_starts_as_the_form_says(console: User, store: Store) -> None:
    await console.open("/start")
    said: dict[str, Any] = {
        "run": "carry-night-1",
        "preset": "demo",
        "brief": "Learn sums <b>that</b> carry.",
        "rounds": 4.0,
        "max_model_cost_usd": 2.5,
        "max_model_requests": 40.0,
        "seed": 7.0,
    }
    for name, value in said.items():
        field(console, name).value = value
    start = console.find(marker="start")
    start.click()
    start.click()
    await until(lambda: "carry-night-1" in runs(store))
    await console.should_see("Jobs of this run")
    run = runs(store)["carry-night-1"]
    assert (run.brief, run.rounds_target, run.seed) == (said["brief"], 4, 7)
    assert run.limits == {"max_model_cost_usd": 2.5, "max_model_requests": 40}
    assert (run.config["preset"], run.mode, run.actor) == ("demo", "live", "owner")


async def test_a_dry_run_is_told_apart(console: User, store: Store) -> None:
    store.write(lambda session: session.add_all(gateway_rows()))
    await console.open("/start")
    await console.should_not_see("Nothing is trained")
    (switch,) = console.find(ui.switch).elements
    switch.value = True
    await console.should_see("Nothing is trained")
    field(console, "student_model").value = "sim/student"
    field(console, "run").value = "rehearsal-2"
    field(console, "brief").value = "Rehearse."
    await until(lambda: any("--dry-run" in text for text in texts(console)))
    console.find(marker="start").click()
    await until(lambda: "rehearsal-2" in runs(store))
    run = runs(store)["rehearsal-2"]
    assert (run.mode, run.simulated, run.base_model) == ("dry", True, "sim/student")


@pytest.mark.parametrize(
    ("name", "value", "refusal"),
    [
        ("run", "Not An Id", "run: use 1 to 64"),
        ("run", "arith-carry-1", "run arith-carry-1 exists already"),
        ("brief", "  ", "brief: give 1 to 4000"),
        ("rounds", 5000.0, "rounds: give 1 to 1000"),
        ("rounds", 1.5, "rounds: "),
        ("max_model_cost_usd", None, "limits.max_model_cost_usd: required"),
        ("max_cost_usd", -1.0, "limits.max_cost_usd: give a positive number"),
    ],
)
async def test_a_refusal_stands_beside_the_field_that_it_names(
    console: User, store: Store, name: str, value: Any, refusal: str
) -> None:
    before = set(runs(store))
    await console.open("/start")
    field(console, "brief").value = "Learn."
    field(console, name).value = value
    console.find(marker="start").click()
    await until(lambda: field(console, name).error)
    assert field(console, name).error.startswith(refusal)
    assert set(runs(store)) == before
    field(console, name).value = "another" if isinstance(value, str) else 3.0
    assert field(console, name).error is None


async def test_a_new_run_from_an_old_one_is_prefilled(console: User, store: Store) -> None:
    def settings(session: Any) -> None:
        run = session.get_one(Run, "arith-carry-1")
        run.config = {"preset": "demo", "limits": {"dev_n": 99}, "min_gain": 0.05}

    store.write(settings)
    await console.open("/start?from=arith-carry-1")
    assert field(console, "run").value == "arith-carry-3"
    assert field(console, "brief").value == "Learn sums that carry."
    assert (field(console, "preset").value, field(console, "rounds").value) == ("demo", 2)
    await console.should_see("Also taken over: dev_n 99, min_gain 0.05")
    console.find(marker="start").click()
    await until(lambda: "arith-carry-3" in runs(store))
    config = runs(store)["arith-carry-3"].config
    assert (config["limits"]["dev_n"], config["min_gain"]) == (99, 0.05)
    assert config["limits"]["blind_n"] == 240  # of the preset


async def test_a_viewer_gets_no_form(console: User, store: Store) -> None:
    demote(store)
    refused = await console.http_client.get("/start")
    assert refused.status_code == 403
    assert "owner lacks the capability training.run" in refused.text
    assert "Run id" not in refused.text


async def test_a_right_taken_away_is_gone_when_starting(console: User, store: Store) -> None:
    before = set(runs(store))
    await console.open("/start")
    field(console, "brief").value = "Learn."
    demote(store)
    console.find(marker="start").click()
    await console.should_see("owner lacks the capability training.run")
    assert set(runs(store)) == before


async def test_the_list_leads_to_the_form(console: User) -> None:
    await console.open("/")
    console.find("Start a run").click()
    await console.should_see("The same from a terminal")


FIELDS = {
    "run": "carry-1",
    "brief": 'It\'s $HOME; `x` "y"\nsecond line',
    "preset": "demo",
    "seed": 7,
    "dry_run": True,
    "limits": {"max_model_cost_usd": 5, "max_model_requests": 100},
}


def test_the_command_says_the_same_whatever_is_in_the_brief() -> None:
    words = shlex.split(command(FIELDS))
    assert words[:5] == ["el", "job", "run", "start", "carry-1"]
    assert words[words.index("--brief") + 1] == FIELDS["brief"]
    assert words[words.index("--max-model-requests") + 1] == "100"
    assert words[-1] == "--dry-run"


def test_curl_sends_the_same_fields() -> None:
    words = shlex.split(curl(FIELDS, "http://127.0.0.1:8710"))
    assert words[3] == "http://127.0.0.1:8710/v1/agent-runs/rsi/runs"
    assert json.loads(words[-1]) == FIELDS


def test_counts_have_no_option() -> None:
    assert command_says_all(FIELDS)
    assert not command_says_all({"limits": {"max_model_cost_usd": 5, "dev_n": 10}})


def test_a_refusal_that_names_no_field_belongs_to_none() -> None:
    assert field_of("sim/x has no known price here; known are ['a']", {"run", "brief"}) is None
    assert field_of("run a-1 exists already; choose another id", {"run"}) == "run"
    assert field_of("run a-1 is finished: there is nothing to stop", {"run"}) is None
