"""Trainings without a loop at the door: what is taken in, what is refused by name, how they go."""

import copy
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from sqlmodel import select

from app import hand_jobs
from app.train_schema import train_body
from data.disk import Room
from data.job_places import ROWS, job_folder
from data.tables import Account, Evaluation, Lease, Run, Setting
from engine.models import simulated
from tests.door import Door, door

ENDED = ("completed", "failed", "cancelled")
QUESTION = {"role": "user", "content": "What is 2 + 3?"}
ROW = {"messages": [QUESTION], "completion": "5", "family": "arith.add_carry"}
CHAT = {"messages": [QUESTION, {"role": "assistant", "content": "5"}]}
SPEC = {"base_model": "sim/student", "data": {"rows": [ROW, CHAT]}}


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A door behind which nothing is taken up, for what is refused."""
    with door(tmp_path_factory.mktemp("still")) as opened:
        yield opened


SLOW = {"data": {"rows": [ROW] * 400}, "training": {"batch_size": 1}}  # 40 s at this pace
PACE = 0.1
BRIEF = {"max_model_cost_usd": 1, "diag_per_family": 1, "dev_n": 20, "collect_tasks": 8}


@pytest.fixture
def paced(tmp_path: Path) -> Iterator[Door]:
    """The same with a simulated model that takes its time, so that others have to wait."""
    with door(tmp_path / "home", pace_seconds=PACE) as opened:
        yield opened


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Door]:
    """A door with an engine behind it that a test turns by hand."""
    with door(tmp_path / "home") as opened:
        yield opened


def body(request_id: str | None = None, **changes: Any) -> dict[str, Any]:
    """A submission with some fields of its spec changed."""
    named = {} if request_id is None else {"request_id": request_id}
    return {"type": "train", **named, "spec": SPEC | changes}


def submit(at: Door, given: dict[str, Any]) -> str:
    """The id of a job that is taken in."""
    jsonschema.validate(given, train_body(["sim/student"]))
    return str(at.post("/v1/job", given, 201)["job_id"])


def finish(at: Door, job: str, seconds: float = 120) -> dict[str, Any]:
    """The job once it has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        at.pawl.engine.tick()
        found: dict[str, Any] = at.get(f"/v1/job/{job}")
        if found["status"] in ENDED:
            return found
        time.sleep(0.02)
    raise AssertionError(f"job {job} is still {found}")


def wait(at: Door, job: str, status: str) -> dict[str, Any]:
    """The job once it is shown with that status."""
    deadline = time.monotonic() + 60
    while (found := at.get(f"/v1/job/{job}"))["status"] != status:
        assert time.monotonic() < deadline, found
        at.pawl.engine.tick()
        time.sleep(0.01)
    shown: dict[str, Any] = found
    return shown


BAD_ROWS = {
    "data.rows: give a list of at least one row": [],
    "data.rows[0]: give an object": ["text"],
    "data.rows[1].messages: give a list": [ROW, {"completion": "5"}],
    "data.rows[0]: give a completion, or end": [{"messages": [QUESTION]}],
    "data.rows[0].messages[0].role: give one of": [
        {"messages": [{"role": "tool", "content": "x"}], "completion": "5"}
    ],
    "data.rows[0].messages[0].content: give a text": [
        {"messages": [{"role": "user", "content": 5}], "completion": "5"}
    ],
    "data.rows[0].completion: give a text that is not blank": [ROW | {"completion": " "}],
    "data.rows[0].ends: give true, or false": [ROW | {"ends": 1}],
    "data.rows[0].source: rows have": [ROW | {"source": "web"}],
    "data.rows[0]: 200015 characters are more": [ROW | {"completion": "5" * 200_001}],
    "data.rows: 20001 rows are given": [{}] * 20_001,
    "data.rows[0].completion: there is half a character": [ROW | {"completion": "\ud83d"}],
}
BAD_SPECS: dict[str, dict[str, Any]] = {
    "base_model: 'gpt' is not one of": {"base_model": "gpt"},
    "recipe: 'rlhf' is not one of": {"recipe": "rlhf"},
    "data: give rows": {"data": {}},
    "data.upload: nothing is kept by name here; send the rows": {"data": {"upload": "up-1"}},
    "data.dataset: nothing is kept by name here; send the rows": {"data": {"dataset": "sums"}},
    "lora.rank: Input should be greater": {"lora": {"rank": 0}},
    "lora.layers: not a field here": {"lora": {"layers": 3}},
    "training.epochs: Input should be less": {"training": {"epochs": 1000}},
    "training.seed: Input should be a valid integer": {"training": {"seed": "7"}},
    "evaluate.suite: 'mmlu' is not one of arith": {"evaluate": {"suite": "mmlu"}},
    "evaluate.n: Input should be less": {"evaluate": {"suite": "guard", "n": 10**6}},
    "evaluate.families: guard is a fixed list": {
        "evaluate": {"suite": "guard", "families": [{"id": "guard.facts"}]}
    },
    "evaluate.families[0].id: give one of arith.add_carry": {
        "evaluate": {"suite": "arith", "families": [{"id": "code.output"}]}
    },
    "evaluate.families[0]: arith.add_carry has no parameter digits": {
        "evaluate": {"suite": "arith", "families": [{"id": "arith.add_carry", "digits": 2}]}
    },
    "tags.rsi_round: give a whole number": {"tags": {"rsi_round": "first"}},
    "tags.team: give a text": {"tags": {"team": " "}},
    "epochs: not a field here": {"epochs": 3},
    "lora.rank: give a value, or leave it out": {"lora": {"rank": None}},
    "name: give a text of 1 to 64": {"name": " "},
}


@pytest.mark.parametrize("told", BAD_ROWS)
def test_a_bad_row_is_refused_by_its_number(still: Door, told: str) -> None:
    given = body(data={"rows": BAD_ROWS[told]})
    if "half a character" in told:  # the door itself takes no such body
        assert still.refusal("POST", "/v1/job", json=given)[0] == 422
        return
    answer = still.ask("POST", "/v1/job", json=given)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_TRAIN_JOB_SPEC")
    assert told in answer.json()["message"]


@pytest.mark.parametrize("told", BAD_SPECS)
def test_a_bad_field_is_refused_by_its_name(still: Door, told: str) -> None:
    answer = still.ask("POST", "/v1/job", json=body(**BAD_SPECS[told]))
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_TRAIN_JOB_SPEC")
    assert told in answer.json()["message"]
    assert still.get("/v1/job")["items"] == []


def test_what_a_whole_request_may_not_say(still: Door) -> None:
    bad: dict[str, dict[str, Any]] = {
        "spec, trials: give one of the two": {"type": "train"},
        "trials: give a list of 1 to 16": {"type": "train", "trials": [{"spec": SPEC}] * 17},
        "trials[1].base_model: 'gpt'": {
            "type": "train",
            "trials": [{"spec": SPEC}, {"spec": SPEC | {"base_model": "gpt"}}],
        },
        "request_id: give a text": body() | {"request_id": 7},
        "queue: not a field here": body() | {"queue": "fast"},
        "name: give a text": body(name="fine") | {"name": "x" * 65},
        "trials: give a value": body() | {"trials": None},
        "spec: give an object": {"type": "train", "spec": []},
    }
    for told, given in bad.items():
        answer = still.ask("POST", "/v1/job", json=given)
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_TRAIN_JOB_SPEC"), told
        assert told in answer.json()["message"]
    runner = {"type": "train", "trials": [{"spec": {"runner": "n/a@1", "command": "train"}}]}
    assert still.refusal("POST", "/v1/job", json=runner) == (422, "UNSUPPORTED_CAPABILITY")
    reader = still.with_role("viewer")
    assert reader.refusal("POST", "/v1/job", json=body()) == (403, "ACCESS_DENIED")
    assert not list((still.pawl.home.path / "jobs").glob("*"))


def test_rows_of_some_megabytes_are_taken_and_more_are_not(works: Door) -> None:
    rows = [ROW | {"completion": "5" * 100_000}] * 70
    job = submit(works, body(data={"rows": rows}))
    file = job_folder(works.pawl.home, job) / ROWS
    assert file.stat().st_size > 7_000_000 and file.parent.stat().st_mode & 0o077 == 0
    more = body(data={"rows": rows + rows[:20]})
    assert works.refusal("POST", "/v1/job", json=more) == (413, "REQUEST_TOO_LARGE")


def test_no_rows_are_taken_in_that_would_fill_the_disk(
    still: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Room(total=10**9, used=8 * 10**8, free=200_000_100)
    monkeypatch.setattr(hand_jobs, "room", lambda folder: small)
    answer = still.ask("POST", "/v1/job", json=body())
    assert answer.status_code == 503
    assert "the disk is too full for more rows" in answer.json()["message"]
    assert "200.0 MB free of 1.0 GB: free some space" in answer.json()["message"]
    assert not list((still.pawl.home.path / "jobs").glob("*"))


def test_the_same_request_again_is_the_same_job(works: Door) -> None:
    first = works.post("/v1/job", body("rq-1"), 201)
    assert first == {"job_id": first["job_id"], "type": "train", "status": "queued"}
    assert works.post("/v1/job", body("rq-1"), 201) == first
    other = copy.deepcopy(body("rq-1", tags={"team": "a"}))
    refused = works.refusal("POST", "/v1/job", json=other)
    assert refused == (409, "TRAIN_JOB_IDEMPOTENCY_CONFLICT")
    assert len(works.get("/v1/job?type=train")["items"]) == 1
    assert submit(works, body()) != submit(works, body())


def test_a_training_becomes_a_checkpoint_and_scores(works: Door) -> None:
    rate = Setting(name="device_usd_per_hour", value="3600")  # a dollar a second
    works.pawl.store.write(lambda s: s.merge(rate))
    rows = [ROW | {"messages": [{"role": "user", "content": f"{n}+1"}]} for n in range(120)]
    given = body(
        data={"rows": rows},
        lora={"rank": 4},
        training={"batch_size": 16, "seed": 3},
        evaluate={"suite": "arith", "n": 60, "families": [{"id": "arith.add_carry"}]},
        tags={"rsi_run": "by-hand", "rsi_round": 2, "source": "a script"},
    )
    job = submit(works, given | {"name": "first try"})
    found = finish(works, job)
    assert found["status"] == "completed" and found["name"] == "first try"
    assert found["reason"].startswith("8 steps on 120 rows, loss ")
    training = found["training"]
    assert training["base_model"] == "sim/student" and training["simulated"] is True
    assert training["lora_rank"] == 4
    assert training["tags"] == training["user_metadata"]
    assert training["tags"].items() >= {"rsi_round": "2", "agent": "a script"}.items()
    path = training["checkpoint"]["path"]
    (checkpoint,) = works.get(f"/v1/job/checkpoints?train_job_id={job}")["items"]
    assert path == f"envloop://{job}/{checkpoint['checkpoint_id']}"
    assert works.get(f"/v1/job/checkpoints/download?path={path}&job_id={job}")["urls"]
    figures = works.get(f"/v1/job/{job}/result")["metrics"]
    assert figures["n"] == 60 and figures["base_mean"] < figures["adapter_mean"]
    assert figures["difference_low"] < figures["difference"] < figures["difference_high"]
    log = works.get(f"/v1/job/{job}/logs")
    assert log["eof"] and "step 8 loss" in " ".join(one["content"] for one in log["items"])
    told = [one["status"] for one in works.get(f"/v1/job/{job}/events")["items"]]
    assert told == ["queued", "running", "completed"]
    with works.pawl.store.read() as session:
        leases = [(one.job, one.run, one.purpose) for one in session.exec(select(Lease))]
        assert leases == [(job, None, "train"), (job, None, "evaluate")]
        assert session.get_one(Account, "project:prj_local").device_settled > 0
        assert {one.job for one in session.exec(select(Evaluation))} == {job}


def test_trials_are_jobs_of_their_own(works: Door) -> None:
    trials = [{"name": "low", "spec": SPEC}, {"spec": SPEC | {"lora": {"rank": 8}}}]
    given = {"type": "train", "request_id": "rq", "trials": trials, "tags": {"team": "a"}}
    answer = works.post("/v1/job", given, 201)
    ids = [one["job_id"] for one in answer["trials"]]
    assert answer["job_id"] == ids[0] and len(set(ids)) == 2
    assert works.post("/v1/job", given, 201) == answer
    jobs = [finish(works, job) for job in ids]
    assert [job["name"] for job in jobs] == ["low", "trial-2"]
    assert all(job["training"]["tags"]["team"] == "a" for job in jobs)


def test_one_that_waits_says_for_whom_and_can_be_stopped(paced: Door) -> None:
    works = paced
    slow = submit(works, body(**SLOW))
    waiting = submit(works, body(tags={"team": "a"}))
    wait(works, slow, "running")
    works.pawl.engine.tick()
    assert works.get(f"/v1/job/{waiting}")["reason"] == f"waits for the device, held by {slow}"
    works.start("sums-1")
    works.pawl.engine.tick()
    with works.pawl.store.read() as session:
        assert session.get_one(Run, "sums-1").reason == f"waits for the device, held by {slow}"
    assert works.post(f"/v1/job/{waiting}/stop", None)["status"] == "cancelling"
    assert finish(works, waiting)["reason"] == "stopped by owner"
    works.post(f"/v1/job/{slow}/stop", None)
    ended = finish(works, slow)
    assert (ended["status"], ended["reason"]) == ("cancelled", "stopped by owner")
    assert "checkpoint" not in ended["training"]
    assert works.refusal("POST", f"/v1/job/{slow}/stop")[1] == "CONFLICT"
    assert works.refusal("POST", f"/v1/job/{slow}/pause")[1] == "JOB_ACTION_UNSUPPORTED"


class Gate:
    """The time that a simulated model takes: as long as a test wants it to."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def sleep(self, _seconds: float) -> None:
        self.open.wait(120)


@pytest.fixture
def gate(works: Door, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Nothing that a simulated model does behind `works` ends before this is opened."""
    made = Gate()
    monkeypatch.setattr(simulated, "time", made)
    yield made
    made.open.set()


def test_a_live_run_that_waits_for_longer_goes_first(works: Door, gate: Gate) -> None:
    works.start("first", rounds=1, limits=BRIEF)
    works.pawl.engine.tick()
    works.start("second", rounds=1, limits=BRIEF)
    works.pawl.engine.tick()
    job = submit(works, body())
    works.pawl.engine.tick()
    assert works.get(f"/v1/job/{job}")["reason"] == "waits for the device, held by first"
    gate.open.set()
    works.pawl.wait("second")
    assert finish(works, job)["status"] == "completed"
    with works.pawl.store.read() as session:
        runs = {run.id: run.ended_at for run in session.exec(select(Run))}
    assert works.get(f"/v1/job/{job}")["finished_at"] > runs["second"]


def test_a_training_that_meets_a_cap_waits_until_it_is_raised_or_somebody_stops_it(
    works: Door,
) -> None:
    works.pawl.store.write(lambda s: s.merge(Setting(name="device_usd_per_hour", value="3600")))
    account = Account(id="project:prj_local", project_id="prj_local", total_cap=1_000_000)
    works.pawl.store.write(lambda s: s.merge(account))
    job = submit(works, body())
    deadline = time.monotonic() + 60
    while "total cap $1.00" not in (found := works.get(f"/v1/job/{job}")).get("reason", ""):
        assert time.monotonic() < deadline, found
        works.pawl.engine.tick()
        time.sleep(0.1)
    assert found["status"] == "queued"
    works.post(f"/v1/job/{job}/stop")
    assert finish(works, job)["status"] == "cancelled"


def test_what_cannot_be_measured_fails_before_it_trains(works: Door) -> None:
    few = {
        "suite": "arith",
        "n": 2000,
        "families": [{"id": "arith.add_carry", "low": 1, "high": 1}],
    }
    job = submit_unchecked(works, body(evaluate=few))
    ended = finish(works, job)
    assert ended["status"] == "failed" and "different tasks" in ended["reason"]
    assert not works.get(f"/v1/job/checkpoints?job_id={job}")["items"]
    lost = submit(works, body())
    (job_folder(works.pawl.home, lost) / ROWS).unlink()
    assert "submit them again" in finish(works, lost)["reason"]


def submit_unchecked(at: Door, given: dict[str, Any]) -> str:
    """Like `submit`, for parameters that the documentation does not spell out."""
    return str(at.post("/v1/job", given, 201)["job_id"])


def test_one_that_was_cut_off_goes_on_at_the_next_start(tmp_path: Path) -> None:
    with door(tmp_path / "home", pace_seconds=PACE) as first:
        job = submit(first, body(**SLOW))
        wait(first, job, "running")
    with door(tmp_path / "home") as second:
        again = second.get(f"/v1/job/{job}")
        assert again["status"] == "running" and again["reason"].startswith("interrupted")
        assert finish(second, job)["status"] == "completed"
        said = [one["content"] for one in second.get(f"/v1/job/{job}/logs?source=system")["items"]]
    assert "training goes on where it was: 400 rows on sim/student" in said
