"""Steers, directives and control over REST, and the order in which a request is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlmodel import select

from data.tables import ApiKey, Control, Job, Project, Run, Steer
from engine.controls import carry_out
from recipes.domains import DOMAINS
from tests.door import FIELDS, RUNS, Door, door


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A run that is over, one that waits for another day, and one of a foreign project."""
    with door(tmp_path_factory.mktemp("commands")) as opened:
        opened.start("over", rounds=1)
        opened.pawl.wait("over")
        opened.start("later", rounds=3, start_after="2099-01-01T00:00:00Z")
        foreign = Project(id="prj_other", workspace_id="ws_local", name="Other")
        opened.pawl.store.write(lambda s: s.add(foreign))
        opened.with_role("developer", "prj_other").start("foreign", dry_run=True)
        yield opened


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Door]:
    with door(tmp_path) as opened:
        yield opened


# The order of refusals: 401, unknown path, capability, visibility, fields, state


COMMANDS = {
    "steer": ({"text": "x"}, {"text": ""}, "INVALID_STEER"),
    "directives": ({"text": "x"}, {"text": " "}, "INVALID_DIRECTIVE"),
    "control": ({"action": "stop"}, {"action": "burn"}, "INVALID_RSI_REQUEST"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("body", ["{broken", "[]", "", "right"])
def test_a_viewer_never_learns_whether_a_body_was_valid(
    doors: Door, command: str, body: str
) -> None:
    viewer = doors.with_role("viewer")
    more: dict[str, Any] = {"json": COMMANDS[command][0]} if body == "right" else {"content": body}
    for run in ("later", "nobody"):
        assert viewer.refusal("POST", f"{RUNS}/{run}/{command}", **more) == (403, "ACCESS_DENIED")
    assert viewer.refusal("POST", RUNS, content=body) == (403, "ACCESS_DENIED")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("body", ["{broken", "[]", "", "5", "NaN"])
def test_an_unseen_run_comes_before_the_body_and_the_body_before_the_state(
    doors: Door, command: str, body: str
) -> None:
    _, bad, code = COMMANDS[command]
    not_found = (404, "RSI_RUN_NOT_FOUND")
    assert doors.refusal("POST", f"{RUNS}/nobody/{command}", content=body) == not_found
    assert doors.refusal("POST", f"{RUNS}/nobody/{command}", json=bad) == not_found
    assert doors.refusal("POST", f"{RUNS}/over/{command}", content=body) == (422, code)
    assert doors.refusal("POST", f"{RUNS}/over/{command}", json=bad) == (422, code)


def test_a_run_is_visible_to_a_project_whose_job_carries_its_label(doors: Door) -> None:
    labels = {"rsi_run": "foreign", "source": "script"}
    job = Job(id="by-hand", project_id="prj_local", type="train", labels=labels)
    doors.pawl.store.write(lambda s: s.add(job))
    assert doors.get(f"{RUNS}/foreign")["owner"]["project_id"] == "prj_other"
    assert "foreign" in [item["run"] for item in doors.get(RUNS)["items"]]
    doors.post(f"{RUNS}/foreign/steer", {"text": "from a friend"}, 202)
    doors.pawl.store.write(lambda s: s.delete(s.get_one(Job, "by-hand")))
    assert doors.refusal("GET", f"{RUNS}/foreign") == (404, "RSI_RUN_NOT_FOUND")


# Steers and directives


def test_a_steer_is_queued_with_its_author_and_seen_at_once(doors: Door) -> None:
    ticket = doors.post(f"{RUNS}/later/steer", {"text": "Prefer sums.", "author": "mallory"}, 202)
    assert set(ticket) == {"id", "status", "at"} and ticket["status"] == "queued"
    steer = doors.get(f"{RUNS}/later/live")["steers"][-1]
    assert steer["id"] == ticket["id"] and steer["author"] == "owner"
    assert steer["text"] == "Prefer sums." and steer["delivered_at"] is None


@pytest.mark.parametrize("said", [None, "", " \n\t", "x" * 4001, 5, ["x"], "\ud800"])
def test_texts_that_nobody_could_follow_are_refused(doors: Door, said: object) -> None:
    before = len(doors.pawl.rows(Steer))
    for path, code in (("steer", "INVALID_STEER"), ("directives", "INVALID_DIRECTIVE")):
        answer = doors.refusal("POST", f"{RUNS}/later/{path}", json={"text": said})
        assert answer == (422, code)
    assert len(doors.pawl.rows(Steer)) == before


def test_4000_characters_of_any_script_are_taken(doors: Door) -> None:
    text = "数" * 3998 + "\u202e🦀"
    doors.post(f"{RUNS}/later/directives", {"text": text}, 201)
    assert doors.get(f"{RUNS}/later/directives")["items"][-1]["text"] == text


def test_nobody_reads_a_steer_once_the_run_is_over(doors: Door) -> None:
    refused = doors.refusal("POST", f"{RUNS}/over/steer", json={"text": "late"})
    assert refused == (409, "RSI_RUN_NOT_ACTIVE")


def test_directives_are_taken_in_every_state_and_listed_oldest_first(doors: Door) -> None:
    first = doors.post(f"{RUNS}/over/directives", {"text": "one"}, 201)
    assert set(first) == {"id", "text", "author", "at", "read", "used"}
    assert first["author"] == "owner" and first["read"] == first["used"] == []
    doors.post(f"{RUNS}/over/directives", {"text": "two"}, 201)
    listed = doors.get(f"{RUNS}/over/directives")
    assert [one["text"] for one in listed["items"]] == ["one", "two"]
    assert listed["next_cursor"] is None
    assert doors.get(f"{RUNS}/over")["directives"] == listed["items"]


# Control


def test_a_stop_shows_before_the_engine_has_seen_it_and_counts_once(fresh: Door) -> None:
    fresh.start("r", rounds=3, start_after="2099-01-01T00:00:00Z")
    wanted = {
        "run": "r",
        "state": "starting",
        "round": 0,
        "rounds_target": 3,
        "stop_requested": True,
    }
    assert fresh.post(f"{RUNS}/r/control", {"action": "stop"}) == wanted
    assert fresh.post(f"{RUNS}/r/control", {"action": "stop"}) == wanted
    assert len(fresh.pawl.rows(Control)) == 1
    assert fresh.get(f"{RUNS}/r")["stop_requested"] is True
    assert fresh.get(f"{RUNS}/r/live")["jobs"][0]["status"] == "cancelling"
    fresh.pawl.engine.tick()
    assert fresh.get(f"{RUNS}/r")["state"] == "stopped"
    again = fresh.refusal("POST", f"{RUNS}/r/control", json={"action": "stop"})
    assert again == (409, "RSI_CONFLICT")


def test_extending_a_finished_run_shows_it_running_before_the_engine_has_seen_it(
    fresh: Door,
) -> None:
    fresh.start("r", rounds=1)
    fresh.pawl.wait("r")
    last = fresh.get(f"{RUNS}/r/live")
    assert last["state"] == "finished"
    answer = fresh.post(f"{RUNS}/r/control", {"action": "extend", "rounds": 2})
    assert (answer["state"], answer["rounds_target"]) == ("running", 2)
    follower = fresh.get(f"{RUNS}/r/live?since={last['next_cursor']}")
    assert follower["state"] == follower["run_state"] == "running"
    assert len(fresh.pawl.wait("r").rounds) == 2
    jobs = fresh.get("/v1/job")["items"]
    assert [(job["job_id"], job["status"]) for job in jobs] == [
        ("r-r2", "completed"),
        ("r-r1", "completed"),
    ]


def test_resuming_a_run_that_hit_its_cap_needs_a_higher_cap_and_never_takes_a_lower(
    fresh: Door,
) -> None:
    fresh.start("r", dry_run=True, rounds=1, limits={"max_model_cost_usd": 0.001})
    assert "model cap" in (fresh.pawl.wait("r").reason or "")
    control = f"{RUNS}/r/control"
    for caps in ({"max_model_cost_usd": 0.0001}, {"model_usd_cap": 0.0001}, {"usd_cap": 5}):
        body = {"action": "extend", "rounds": 1, "limits": caps}
        assert fresh.refusal("POST", control, json=body) == (409, "RSI_CONFLICT")
    body = {"action": "extend", "rounds": 1, "limits": {"model_usd_cap": 0.5}}
    fresh.post(control, body)
    assert fresh.get(f"{RUNS}/r")["limits"]["max_model_cost_usd"] == 0.5
    assert fresh.get(f"{RUNS}/r")["spend"]["max_model_cost_usd"] == 0.5
    assert fresh.pawl.wait("r").state == "finished"


def test_a_failed_round_that_is_taken_up_again_has_a_working_job(fresh: Door) -> None:
    fresh.start("r", dry_run=True, rounds=1, limits={"max_model_cost_usd": 0.001})
    fresh.pawl.wait("r")
    assert fresh.get("/v1/job/r-r1")["status"] == "cancelled"
    answer = fresh.post(f"{RUNS}/r/control", {"action": "resume"})
    assert answer["state"] == "running"
    fresh.pawl.store.write(lambda s: carry_out(s, set(), DOMAINS))
    job = fresh.get("/v1/job/r-r1")
    assert job["status"] == "running" and "finished_at" not in job


CONFLICTS = {
    "resume of a finished run": ("over", {"action": "resume"}),
    "resume of a waiting run": ("later", {"action": "resume"}),
    "stop of a finished run": ("over", {"action": "stop"}),
    "extend to what is done": ("over", {"action": "extend", "rounds": 1}),
}
REFUSED = {
    "no action": {},
    "a foreign action": {"action": "pause"},
    "an action that is no text": {"action": ["stop"]},
    "extend without rounds": {"action": "extend"},
    "extend to nothing": {"action": "extend", "rounds": 0},
    "extend beyond 1000": {"action": "extend", "rounds": 1001},
    "extend to true": {"action": "extend", "rounds": True},
    "extend with other limits": {"action": "extend", "rounds": 9, "limits": {"dev_n": 5}},
    "stop with rounds": {"action": "stop", "rounds": 9},
    "resume with limits": {"action": "resume", "limits": {"usd_cap": 5}},
}


@pytest.mark.parametrize(("run", "body"), CONFLICTS.values(), ids=CONFLICTS)
def test_what_the_state_does_not_allow_is_a_conflict(
    doors: Door, run: str, body: dict[str, Any]
) -> None:
    refused = doors.refusal("POST", f"{RUNS}/{run}/control", json=body)
    assert refused == (409, "RSI_CONFLICT")


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_what_is_no_control_request_is_refused(doors: Door, body: dict[str, Any]) -> None:
    refused = doors.refusal("POST", f"{RUNS}/later/control", json=body)
    assert refused == (422, "INVALID_RSI_REQUEST")


def test_stop_needs_its_own_capability(doors: Door) -> None:
    half = doors.with_role("developer")

    def without_stop(s: Any) -> None:
        newest = s.exec(select(ApiKey).order_by(text("rowid DESC"))).first()
        newest.capabilities = ["read", "training.run"]
        s.add(newest)

    doors.pawl.store.write(without_stop)
    refused = half.refusal("POST", f"{RUNS}/later/control", json={"action": "stop"})
    assert refused == (403, "ACCESS_DENIED")
    assert half.refusal("POST", "/v1/job/later-r1/stop") == (403, "ACCESS_DENIED")
    half.post(f"{RUNS}/later/control", {"action": "extend", "rounds": 5})


def test_a_run_whose_record_is_broken_shows_as_unreadable_and_takes_no_commands(
    fresh: Door,
) -> None:
    fresh.start("r", dry_run=True)

    def spoil(s: Any) -> None:
        s.get_one(Run, "r").domain = "gone"

    fresh.pawl.store.write(spoil)
    found = fresh.get(f"{RUNS}/r")
    assert found["state"] == "unreadable" and "recipe" in found["reason"]
    assert fresh.get(f"{RUNS}/r/live")["state"] == "unreadable"
    assert fresh.refusal("POST", f"{RUNS}/r/steer", json={"text": "x"})[0] == 409
    assert fresh.refusal("POST", f"{RUNS}/r/directives", json={"text": "x"})[0] == 409
    for body in ({"action": "stop"}, {"action": "resume"}, {"action": "extend", "rounds": 9}):
        assert fresh.refusal("POST", f"{RUNS}/r/control", json=body) == (409, "RSI_CONFLICT")


def test_starts_of_a_run_are_no_business_of_a_viewer(doors: Door) -> None:
    viewer = doors.with_role("viewer")
    assert viewer.refusal("POST", RUNS, json={"run": "v", **FIELDS}) == (403, "ACCESS_DENIED")
    assert viewer.get(f"{RUNS}/over")["state"] == "finished"
