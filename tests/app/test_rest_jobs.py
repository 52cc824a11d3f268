"""Jobs over REST: labels, states, results, logs that can be followed, checkpoints, stopping."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from data import events
from data.tables import Job, TrainPoint
from tests.door import RUNS, Door, door

STATES = {"queued", "pending", "starting", "running", "recovering", "cancelling", "completed"}
STATES |= {"failed", "cancelled"}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A run that trained twice, a dry one, and one whose only job is queued."""
    with door(tmp_path_factory.mktemp("jobs")) as opened:
        opened.start("trained", rounds=2)
        opened.pawl.wait("trained")
        opened.start("dry", rounds=1, dry_run=True)
        opened.pawl.wait("dry")
        opened.start("waits", rounds=3, start_after="2099-01-01T00:00:00Z")
        yield opened


def no_nulls(value: Any) -> bool:
    if isinstance(value, dict):
        return all(no_nulls(one) for one in value.values())
    return value is not None


def test_a_fresh_run_has_a_queued_job_that_names_it(doors: Door) -> None:
    job = doors.get("/v1/job?type=train&limit=1")["items"][0]
    assert (job["job_id"], job["type"], job["status"]) == ("waits-r1", "train", "queued")
    assert job["training"]["user_metadata"]["rsi_run"] == "waits"
    assert job["training"]["user_metadata"]["rsi_round"] == "1"


def test_labels_come_twice_as_texts_and_nothing_is_null(doors: Door) -> None:
    for job in doors.get("/v1/job")["items"]:
        assert no_nulls(job), job
        training = job["training"]
        assert training["tags"] == training["user_metadata"]
        assert all(isinstance(text, str) and text.strip() for text in training["tags"].values())
        assert training["tags"]["agent"] == training["tags"]["source"] == "pawl"
        assert training["model_ids"] == [training["model_id"]]
        assert not training.keys() & job.keys(), "a job is laid over its training"
        assert job["status"] in STATES


def test_a_job_that_trained_says_what_came_out(doors: Door) -> None:
    job = doors.get("/v1/job/trained-r1")
    assert job["status"] == "completed" and job["finished_at"] >= job["created_at"]
    assert job["training"]["checkpoint"]["path"].startswith("envloop://trained-r1/")
    assert job["training"]["tags"]["rsi_checkpoint"] == "candidate-1"
    assert job["training"]["lora_rank"] == 16 and "bookkeeping" not in job["training"]
    result = doors.get("/v1/job/trained-r1/result")
    assert result.keys() == {"job_id", "status", "metrics", "simulated"}
    assert result["metrics"]["steps"] > 0 and 0 <= result["metrics"]["dev_mean"] <= 1


def test_a_dry_runs_job_says_that_nothing_was_trained(doors: Door) -> None:
    training = doors.get("/v1/job/dry-r1")["training"]
    assert training["bookkeeping"] is True and "checkpoint" not in training
    assert training["tags"]["rsi_purpose"] == "dry round, nothing trained"
    assert training["tags"]["rsi_method"] == "none"


def test_jobs_are_filtered_by_kind_and_state(doors: Door) -> None:
    def names(query: str) -> list[str]:
        return [job["job_id"] for job in doors.get(f"/v1/job?{query}")["items"]]

    assert names("status=queued") == ["waits-r1"]
    assert names("type=inference") == names("type=agent") == names("type=sandbox") == []
    assert len(names("type=train")) == len(names("")) == 4
    assert doors.refusal("GET", "/v1/job?type=magic") == (422, "INVALID_JOB_TYPE")
    assert doors.refusal("GET", "/v1/job?status=done") == (422, "INVALID_TRAIN_JOB_STATUS")
    assert doors.refusal("GET", "/v1/job?limit=0") == (422, "INVALID_LIMIT")
    assert doors.refusal("GET", "/v1/job?cursor=x") == (422, "INVALID_CURSOR")


def test_jobs_are_walked_in_pages(doors: Door) -> None:
    names, cursor = [], ""
    while cursor is not None:
        page = doors.get(f"/v1/job?limit=3{cursor and f'&cursor={cursor}'}")
        names += [job["job_id"] for job in page["items"]]
        cursor = page["next_cursor"]
    assert names == ["waits-r1", "dry-r1", "trained-r2", "trained-r1"]


def test_fixed_names_are_no_job_ids(doors: Door) -> None:
    assert doors.get("/v1/job/training-models")["items"][0]["name"]
    assert doors.get("/v1/job/checkpoints")["items"]
    assert doors.refusal("GET", "/v1/job/no-such-job") == (404, "JOB_NOT_FOUND")
    assert doors.refusal("GET", "/v1/job/a%2Fb") == (404, "JOB_NOT_FOUND")


def test_events_tell_when_a_job_entered_which_state(doors: Door) -> None:
    page = doors.get("/v1/job/trained-r1/events")
    assert [event["status"] for event in page["items"]] == ["queued", "running", "completed"]
    assert page["items"][0].keys() == {"resource_id", "status", "at", "source"}
    queued = doors.get("/v1/job/waits-r1/events")["items"]
    assert [event["status"] for event in queued] == ["queued"]


def followed(doors: Door, job: str, query: str) -> tuple[list[dict[str, Any]], int]:
    """Every line as a follower gets it, and in how many pages."""
    lines, count, cursors = [], 0, set()
    page = doors.get(f"/v1/job/{job}/logs?{query}&tail=1000")
    while True:
        count += 1
        lines += page["items"]
        if page["eof"] and not page["has_more"]:
            return lines, count
        assert page["next_cursor"] not in cursors, "a follower would read it again"
        cursors.add(page["next_cursor"])
        page = doors.get(f"/v1/job/{job}/logs?{query}&cursor={page['next_cursor']}")


def test_a_log_has_the_rounds_events_and_the_trainings_steps_in_order(doors: Door) -> None:
    lines, _ = followed(doors, "trained-r1", "limit=1000")
    assert {line["source"] for line in lines} == {"system", "runtime"}
    assert "run started" in lines[0]["content"]
    assert any(line["content"].startswith("step 1 loss ") for line in lines)
    assert lines[0].keys() == {"id", "at", "source", "stream", "level", "content"}
    assert not any("round 2 of 2 starts" in line["content"] for line in lines)
    second, _ = followed(doors, "trained-r2", "limit=1000")
    assert "round 2 of 2 starts" in second[0]["content"]
    assert not {line["id"] for line in lines if line["source"] == "system"} & {
        line["id"] for line in second
    }


def test_following_in_small_pages_gives_every_line_once(doors: Door) -> None:
    whole, _ = followed(doors, "trained-r1", "limit=1000")
    small, pages = followed(doors, "trained-r1", "limit=3")
    assert pages > 3 and small == whole
    system, _ = followed(doors, "trained-r1", "limit=4&source=system")
    assert system == [line for line in whole if line["source"] == "system"]


def test_the_tail_begins_with_the_last_lines(doors: Door) -> None:
    whole, _ = followed(doors, "trained-r1", "limit=1000")
    page = doors.get("/v1/job/trained-r1/logs?tail=5")
    assert page["items"] == whole[-5:] and page["eof"] is True and page["has_more"] is False
    assert page["collection_status"] == "complete" and page["truncated"] is False


def test_what_comes_while_a_log_is_followed_is_not_lost(tmp_path: Path) -> None:
    with door(tmp_path) as opened:
        opened.start("r", start_after="2099-01-01T00:00:00Z")
        page = opened.get("/v1/job/r-r1/logs")
        assert page["items"] == [] and page["eof"] is False and page["next_cursor"]

        def write(session: Any) -> None:
            events.append(session, "r", "message", "first")
            events.append(session, "r", "error", "second")
            session.add(TrainPoint(run="r", round=1, step=1, loss=2.0, seconds=1.0))

        opened.pawl.store.write(write)
        page = opened.get(f"/v1/job/r-r1/logs?cursor={page['next_cursor']}")
        told = {line["content"]: line["level"] for line in page["items"]}
        assert told == {"first": "info", "second": "error", "step 1 loss 2.0000": "info"}
        assert opened.get(f"/v1/job/r-r1/logs?cursor={page['next_cursor']}")["items"] == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("cursor=x", "LOG_CURSOR_INVALID"),
        ("cursor=", "LOG_CURSOR_INVALID"),
        ("limit=0", "INVALID_LIMIT"),
        ("limit=1001", "INVALID_LIMIT"),
        ("tail=-1", "INVALID_LIMIT"),
        ("source=kernel", "INVALID_REQUEST"),
    ],
)
def test_a_log_refuses_what_it_cannot_follow(doors: Door, query: str, code: str) -> None:
    assert doors.refusal("GET", f"/v1/job/trained-r1/logs?{query}") == (422, code)


def test_checkpoints_are_listed_with_their_files(doors: Door) -> None:
    page = doors.get("/v1/job/checkpoints")
    assert [item["job_id"] for item in page["items"]] == ["trained-r2", "trained-r1"]
    one = page["items"][1]
    assert one["train_job_id"] == "trained-r1" and one["training_run_id"] == "trained"
    assert one["tinker_path"] == "tinker://trained/weights/candidate-1"
    path = doors.get("/v1/job/trained-r1")["training"]["checkpoint"]["path"]
    assert path == f"envloop://trained-r1/{one['checkpoint_id']}"
    folder = doors.pawl.home.checkpoints / one["checkpoint_id"]
    for file in one["files"]:
        assert (folder / file["name"]).stat().st_size == file["size_bytes"]
        assert len(file["sha256"]) == 64


def test_checkpoints_of_one_job_or_run_alone(doors: Door) -> None:
    for query in ("train_job_id=trained-r2", "job_id=trained-r2"):
        found = doors.get(f"/v1/job/checkpoints?{query}")["items"]
        assert [item["job_id"] for item in found] == ["trained-r2"]
    assert len(doors.get("/v1/job/checkpoints?run_id=trained")["items"]) == 2
    for query in ("run_id=dry", "job_id=dry-r1", "job_id=nobody", "run_id=nobody"):
        assert doors.get(f"/v1/job/checkpoints?{query}")["items"] == []


def test_a_checkpoint_that_is_cut_short_is_not_listed(tmp_path: Path) -> None:
    with door(tmp_path) as opened:
        opened.start("r", rounds=1)
        opened.pawl.wait("r")
        checkpoint = opened.get("/v1/job/checkpoints")["items"][0]
        folder = opened.pawl.home.checkpoints / checkpoint["checkpoint_id"]
        (folder / checkpoint["files"][0]["name"]).write_text("")
        assert opened.get("/v1/job/checkpoints")["items"] == []


def test_stopping_a_loops_job_stops_its_run(tmp_path: Path) -> None:
    with door(tmp_path) as opened:
        opened.start("r", start_after="2099-01-01T00:00:00Z")
        answer = opened.ask("POST", "/v1/job/r-r1/stop")  # without a body
        assert answer.json() == {"job_id": "r-r1", "status": "cancelling"}
        assert opened.get("/v1/job/r-r1")["status"] == "cancelling"
        opened.pawl.engine.tick()
        assert opened.get("/v1/job/r-r1")["status"] == "cancelled"
        assert opened.get(f"{RUNS}/r")["state"] == "stopped"
        assert opened.refusal("POST", "/v1/job/r-r1/stop") == (409, "CONFLICT")


def test_only_who_may_stops_jobs_and_endpoints(doors: Door) -> None:
    viewer = doors.with_role("viewer")
    for action in ("stop", "pause", "resume", "wake"):
        refused = viewer.refusal("POST", f"/v1/job/trained-r1/{action}")
        assert refused == (403, "ACCESS_DENIED")
    for action in ("pause", "resume", "wake"):
        refused = doors.refusal("POST", f"/v1/job/trained-r1/{action}", content="{}")
        assert refused == (409, "JOB_ACTION_UNSUPPORTED")
        assert doors.refusal("POST", f"/v1/job/nobody/{action}") == (404, "JOB_NOT_FOUND")


def test_jobs_of_some_kinds_are_not_offered_here(doors: Door) -> None:
    for given in ({"type": "sandbox"}, {"dataset": {"name": "sums"}}):
        refused = doors.refusal("POST", "/v1/job", json=given)
        assert refused == (422, "UNSUPPORTED_CAPABILITY")


def test_a_job_by_hand_shows_with_its_own_base_model(doors: Door) -> None:
    spec = {"base_model": "lab/base"}
    labels = {"rsi_run": "by-hand", "number": "5", "blank": " "}
    row = Job(id="hand-1", project_id="prj_local", type="train", labels=labels, spec=spec)
    doors.pawl.store.write(lambda s: s.add(row))
    training = doors.get("/v1/job/hand-1")["training"]
    assert training["base_model"] == "lab/base"
    assert training["tags"] == {"rsi_run": "by-hand", "number": "5"}
    assert doors.get("/v1/job/hand-1/logs")["items"] == []
    doors.pawl.store.write(lambda s: s.delete(s.get_one(Job, "hand-1")))
