"""Trainings without a loop in a real worker: killed in the middle, carried on, measured, stopped."""

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import col, select

from data.job_places import job_folder, log_name
from data.tables import Evaluation, Job, Lease, Sample, TrainPoint
from engine.models.registry import EMBEDDED
from engine.types import ModelRef
from tests.server.process import Server, is_running
from tests.stopwatch import seconds_until
from tests.worker.tiny_loop import lay_model

ASKED = {"role": "system", "content": "Reply with the number only."}
ROWS = [
    {
        "messages": [ASKED, {"role": "user", "content": f"What is {n} + {n + 5}?"}],
        "completion": str(2 * n + 5),
    }
    for n in range(40)
]
EVALUATE = {
    "suite": "arith",
    "n": 8,
    "families": [{"id": "arith.add_carry"}],
    "max_tokens": 4,
}
STEPS = 60  # so that there is a middle
SPEC = {
    "base_model": "tiny",
    "data": {"rows": ROWS * 30},
    "lora": {"rank": 4},
    "training": {"batch_size": 20, "seed": 5, "checkpoint_seconds": 0},
    "evaluate": EVALUATE,
    "tags": {"rsi_run": "by-hand", "rsi_round": "1"},
}
EMBEDDED_SPEC = {
    "base_model": EMBEDDED,
    "data": {"rows": ROWS},
    "training": {"batch_size": 8, "epochs": 0.6},
    "evaluate": EVALUATE | {"n": 4},
}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, base: ModelRef, tiny: ModelRef
) -> Iterator[list[Server]]:
    """The servers of one home, of which the last one is up."""
    home = tmp_path_factory.mktemp("by-hand")
    lay_model(home, tiny)
    (home / "models" / EMBEDDED).symlink_to(base.path)
    started = [Server(home)]
    yield started
    started[-1].close()


def ask(server: Server, method: str, path: str, body: object = None) -> Any:
    """The JSON of a request with the owner's key."""
    key = server.home.owner_key.read_text().strip()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def submit(server: Server, spec: dict[str, Any]) -> str:
    """The id of a job that is taken in."""
    return str(ask(server, "POST", "/v1/job", {"type": "train", "spec": spec})["job_id"])


def points_of(job: str, step: int) -> Any:
    """The points of a job's loss curve from a step on."""
    return select(TrainPoint).where(TrainPoint.run == log_name(job), TrainPoint.step >= step)


def finish(server: Server, job: str) -> dict[str, Any]:
    """The job once it has ended."""
    over = col(Job.status).in_(("completed", "failed", "cancelled"))
    server.wait_for(select(Job).where(Job.id == job, over), 240)
    found: dict[str, Any] = ask(server, "GET", f"/v1/job/{job}")
    return found


def test_a_training_that_was_killed_ends_like_one_that_was_not(servers: list[Server]) -> None:
    job = submit(servers[0], SPEC)
    servers[0].wait_for(points_of(job, 4), 120)
    workers = servers[0].children()
    assert workers
    servers[0].kill()
    assert seconds_until(lambda: not any(is_running(pid) for pid in workers)) < 5
    told = max(point.step for point in servers[0].read(points_of(job, 4)))
    servers.append(Server(servers[0].home.path))
    server = servers[1]
    killed = finish(server, job)
    assert killed["status"] == "completed", killed
    (row,) = server.read(select(Job).where(Job.id == job))
    training = row.result["training"]
    assert training["resumed_from"] >= 3 and training["steps"] == STEPS
    log = ask(server, "GET", f"/v1/job/{job}/logs?tail=200")
    said = [line["content"] for line in log["items"]]
    assert log["eof"] and any("goes on where it was" in text for text in said)
    steps = {int(line["id"][1:]): line["at"] for line in log["items"] if line["id"][0] == "t"}
    (on,) = [line["at"] for line in log["items"] if "goes on where it was" in line["content"]]
    done = training["resumed_from"]
    lost = set(range(1, STEPS + 1)) - set(steps)
    assert lost <= set(range(told + 1, done + 1)), "a kill may lose the newest alone"
    assert len(lost) <= 10
    assert list(steps) == sorted(steps) and steps[STEPS] <= log["items"][-1]["at"]
    assert steps[max(n for n in steps if n <= done)] < on <= steps[done + 1]
    assert not (job_folder(server.home, job) / "train").exists()

    whole = submit(server, SPEC)
    path = finish(server, whole)["training"]["checkpoint"]["path"]
    name = killed["training"]["checkpoint"]["path"].rpartition("/")[2]
    assert path == f"envloop://{whole}/{name}"
    for one in (job, whole):
        listed = ask(server, "GET", f"/v1/job/checkpoints?train_job_id={one}")["items"]
        assert [item["checkpoint_id"] for item in listed] == [name]
    means = [one.mean for one in server.read(select(Evaluation).order_by(col(Evaluation.id)))]
    assert len(means) == 4 and means[:2] == means[2:]
    assert len(server.read(select(Sample))) == 4 * 8
    assert all(lease.state == "ended" for lease in server.read(select(Lease)))


def test_the_embedded_model_is_trained_and_measured(servers: list[Server]) -> None:
    server = servers[-1]
    job = submit(server, EMBEDDED_SPEC)
    found = finish(server, job)
    assert found["status"] == "completed", found
    assert found["training"].get("simulated") is None
    figures = ask(server, "GET", f"/v1/job/{job}/result")["metrics"]
    assert figures["steps"] == 3 and figures["n"] == 4
    assert figures["difference_low"] <= figures["difference"] <= figures["difference_high"]


def test_a_stop_ends_it_at_its_next_step(servers: list[Server]) -> None:
    server = servers[-1]
    spec = SPEC | {"training": {"batch_size": 1, "epochs": 50}}
    job = submit(server, spec)
    server.wait_for(points_of(job, 1), 120)
    assert ask(server, "POST", f"/v1/job/{job}/stop")["status"] == "cancelling"
    asked = time.monotonic()
    ended = finish(server, job)
    assert ended["status"] == "cancelled" and ended["reason"].startswith("stopped by ")
    assert time.monotonic() - asked < 60  # all of its steps would take minutes
    assert not (job_folder(server.home, job) / "train").exists()
