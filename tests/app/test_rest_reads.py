"""Reading runs over REST: lists, details, rounds and the live view, in the contract's own fields."""

from collections.abc import Iterator
from typing import Any

import pytest

from data import events
from data.tables import Job, Run
from tests.door import RUNS, Door, door

LISTED = {"run", "state", "mode", "domain", "round", "rounds_target", "best_version", "spend"}
LISTED |= {"owner", "stop_requested", "reason", "created_at", "updated_at"}
DETAILED = LISTED | {"summary", "machine", "limits", "brief", "steps", "versions", "gate"}
DETAILED |= {"audits", "rounds", "directives"}
LIVE = {"state", "round", "rounds_target", "phase", "current", "events", "next_cursor", "steers"}
LIVE |= {"jobs", "spend", "updated_at", "run", "run_state", "has_more"}
ROUND = {"run", "round", "decision", "plan", "interventions", "audits", "summary"}
ROUND |= {"started_at", "ended_at"}
KINDS = {"message", "tool_call", "tool_result", "steer", "round", "job", "error"}
ENDS = {"finished", "failed", "stopped", "unreadable"}
NEVER = {"operation_id", "status", "skipped"}  # the published client would misread them


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A run that trained, a dry one, and one with more events than a page holds."""
    with door(tmp_path_factory.mktemp("reads")) as opened:
        opened.start("trained", rounds=2, operator_model="sim/operator")
        opened.pawl.wait("trained")
        opened.start("dry", rounds=1, dry_run=True)
        opened.pawl.wait("dry")
        opened.start("chatty", rounds=3, start_after="2099-01-01T00:00:00Z")
        opened.pawl.store.write(_talk)
        opened.post(f"{RUNS}/chatty/control", {"action": "stop"})
        opened.pawl.engine.tick()
        yield opened


def _talk(session: Any) -> None:
    for number in range(449):
        events.append(session, "chatty", "message", f"line {number}\nand more")


def test_a_fresh_project_says_how_to_start(tmp_path_factory: pytest.TempPathFactory) -> None:
    with door(tmp_path_factory.mktemp("empty")) as opened:
        page = opened.get(RUNS)
    assert page["items"] == [] and page["next_cursor"] is None and "demo" in page["hint"]


def test_the_list_is_newest_first_with_every_field(doors: Door) -> None:
    page = doors.get(RUNS)
    assert [item["run"] for item in page["items"]] == ["chatty", "dry", "trained"]
    for item in page["items"]:
        assert item.keys() >= LISTED and not item.keys() & NEVER
        assert item["owner"].keys() == {"workspace_id", "project_id", "actor"}
        spend = item["spend"]
        assert spend["total_usd"] == pytest.approx(spend["model_usd"] + spend["gpu_usd"])


def test_the_list_is_walked_in_pages_filtered_and_searched(doors: Door) -> None:
    names, cursor, cursors = [], "", set()
    while cursor is not None:
        page = doors.get(f"{RUNS}?limit=1{cursor and f'&cursor={cursor}'}")
        names += [item["run"] for item in page["items"]]
        cursor = page["next_cursor"]
        assert cursor != "" and cursor not in cursors
        cursors.add(cursor)
    assert names == ["chatty", "dry", "trained"]
    assert [item["run"] for item in doors.get(f"{RUNS}?state=stopped")["items"]] == ["chatty"]
    assert [item["run"] for item in doors.get(f"{RUNS}?q=rai")["items"]] == ["trained"]
    assert doors.get(f"{RUNS}?q=%25")["items"] == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "INVALID_LIMIT"),
        ("limit=101", "INVALID_LIMIT"),
        ("limit=x", "INVALID_LIMIT"),
        ("limit=1.5", "INVALID_LIMIT"),
        ("cursor=", "INVALID_CURSOR"),
        ("cursor=x", "INVALID_CURSOR"),
        ("cursor=bm90IG91cnM", "INVALID_CURSOR"),
        ("state=asleep", "INVALID_RSI_REQUEST"),
    ],
)
def test_a_list_refuses_what_it_cannot_follow(doors: Door, query: str, code: str) -> None:
    assert doors.refusal("GET", f"{RUNS}?{query}") == (422, code)


def test_the_detail_has_the_evidence_in_the_contracts_fields(doors: Door) -> None:
    found = doors.get(f"{RUNS}/trained")
    assert found.keys() >= DETAILED and not found.keys() & NEVER
    assert found["limits"]["max_model_cost_usd"] == found["limits"]["model_usd_cap"] == 1.0
    assert [step["name"] for step in found["steps"]][:2] == ["baseline", "find failures"]
    assert found["versions"][0]["version"] == "base"
    assert found["versions"][0]["role"] == "baseline"
    assert found["versions"][0]["trained_rows"] is None
    score = found["versions"][0]["scores"][0]
    assert score.keys() >= {"suite", "split", "mean", "ci_low", "ci_high", "n"}
    assert found["gate"].keys() >= {"version", "score", "delta_vs_baseline", "verdict"}
    assert found["audits"][0].keys() >= {"type", "version", "verdict", "reasons", "at"}
    assert [one["round"] for one in found["rounds"]] == [1, 2]
    assert found["rounds"][0].keys() >= {"round", "decision", "summary"}
    assert found["simulated"] is True


def test_a_dry_run_decides_nothing(doors: Door) -> None:
    found = doors.get(f"{RUNS}/dry")
    assert found["mode"] == "dry" and found["gate"]["verdict"] == "not_evaluated"
    assert [one["decision"] for one in found["rounds"]] == ["not_evaluated"]
    assert found["spend"]["gpu_usd"] == 0 and found["spend"]["model_usd"] > 0


def test_compact_leaves_the_evidence_out(doors: Door) -> None:
    compact = doors.get(f"{RUNS}/trained?compact=true")
    assert compact.keys() >= LISTED | {"summary"} and not compact.keys() & {"versions", "rounds"}
    whole = doors.get(f"{RUNS}/trained?compact=false")
    assert {name: whole[name] for name in compact} == compact


def test_a_round_tells_its_plan_in_words_and_what_it_changed(doors: Door) -> None:
    one = doors.get(f"{RUNS}/trained/rounds/1")
    assert one.keys() >= ROUND and isinstance(one["plan"], str)
    assert {change["kind"] for change in one["interventions"]} == {"data", "training"}
    assert one["decision"] in {"promote", "reject", "inconclusive"}
    rounds = doors.get(f"{RUNS}/trained/rounds")
    assert rounds["items"][0] == one and rounds["next_cursor"] is None
    first = doors.get(f"{RUNS}/trained/rounds?limit=1")
    assert [item["round"] for item in first["items"]] == [1]
    second = doors.get(f"{RUNS}/trained/rounds?limit=1&cursor={first['next_cursor']}")
    assert [item["round"] for item in second["items"]] == [2] and second["next_cursor"] is None


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", "%20"])
def test_what_is_no_round_number_is_refused(doors: Door, number: str) -> None:
    refused = doors.refusal("GET", f"{RUNS}/trained/rounds/{number}")
    assert refused == (422, "INVALID_RSI_REQUEST")


@pytest.mark.parametrize("number", [3, 2**63, 10**30])
def test_a_round_that_was_not_reached_is_not_there(doors: Door, number: int) -> None:
    refused = doors.refusal("GET", f"{RUNS}/trained/rounds/{number}")
    assert refused == (404, "RESOURCE_NOT_FOUND")


def test_an_end_state_comes_with_the_last_event_and_never_before(doors: Door) -> None:
    seen: list[int] = []
    since = 0
    for number in range(4):
        page = doors.get(f"{RUNS}/chatty/live?since={since}")
        assert page.keys() >= LIVE and type(page["next_cursor"]) is int
        assert len(page["events"]) <= 200
        seen += [event["seq"] for event in page["events"]]
        since = page["next_cursor"]
        assert page["run_state"] == "stopped"
        assert page["has_more"] is (number < 2)
        assert page["state"] == ("running" if number < 2 else "stopped")
    assert seen == list(range(1, 451))
    assert page["events"] == [] and page["next_cursor"] == 450


def test_events_are_one_line_each_of_a_known_kind(doors: Door) -> None:
    for run in ("trained", "dry", "chatty"):
        page = doors.get(f"{RUNS}/{run}/live")
        for event in page["events"]:
            assert event["kind"] in KINDS and event.keys() >= {"seq", "kind", "text"}
            assert 0 < len(event["text"]) <= 500 and len(event["text"].splitlines()) == 1
    assert page["events"][0]["text"] == "line 0 and more"


def test_without_since_everything_is_told_and_a_far_since_gives_an_empty_page(doors: Door) -> None:
    assert doors.get(f"{RUNS}/dry/live") == doors.get(f"{RUNS}/dry/live?since=0")
    for far in (10**6, 2**63, 10**30):
        page = doors.get(f"{RUNS}/dry/live?since={far}")
        assert page["events"] == [] and page["next_cursor"] == far and page["state"] in ENDS


@pytest.mark.parametrize("since", ["-1", "x", "1.5", "", "true", "0x10"])
def test_a_since_that_is_no_number_is_refused(doors: Door, since: str) -> None:
    refused = doors.refusal("GET", f"{RUNS}/dry/live?since={since}")
    assert refused == (422, "INVALID_RSI_REQUEST")


def test_the_live_view_names_jobs_spend_and_caps(doors: Door) -> None:
    page = doors.get(f"{RUNS}/trained/live")
    assert page["current"] is None
    assert page["jobs"] == [
        {"job_id": f"trained-r{number}", "type": "train", "round": number, "status": "completed"}
        for number in (1, 2)
    ]
    assert page["spend"].keys() >= {"model_requests", "max_model_cost_usd", "max_cost_usd"}


def test_a_broken_row_of_another_run_spoils_no_list(doors: Door) -> None:
    def spoil(session: Any) -> None:
        connection = session.connection()
        job = Job(id="odd-r1", project_id="prj_local", run="odd", round=1, type="train")
        session.add(job)
        session.flush()
        connection.exec_driver_sql("UPDATE job SET labels = '{broken' WHERE id = 'odd-r1'")

    doors.pawl.store.write(spoil)
    assert len(doors.get(RUNS)["items"]) == 3
    assert doors.get("/v1/job")["items"][0]["job_id"] == "odd-r1"
    doors.pawl.store.write(
        lambda s: s.connection().exec_driver_sql("DELETE FROM job WHERE id='odd-r1'")
    )


def test_runs_of_the_same_millisecond_are_walked_without_loss(doors: Door) -> None:
    def same(session: Any) -> None:
        trained = session.get_one(Run, "trained").model_dump()
        for letter in "abcde":
            session.add(Run(**(trained | {"id": f"same-{letter}", "state": "finished"})))

    doors.pawl.store.write(same)
    names, cursor = [], None
    for _ in range(4):
        page = doors.get(f"{RUNS}?limit=2&q=same{f'&cursor={cursor}' if cursor else ''}")
        names += [item["run"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == [f"same-{letter}" for letter in "edcba"]
