"""Trainings without a loop inside the engine: what they are measured on, what a start tidies up."""

import hashlib
import time
from pathlib import Path
from typing import Any

from sqlmodel import select

from app import hand_jobs
from data.job_places import job_folder
from data.tables import Evaluation, Job, Sample
from engine.splits import draw
from recipes.domains import DOMAINS
from tests.instance import OWNER, Instance, instance

FAMILY = DOMAINS["arith"].family("arith.add_carry")
MEASURED = {"suite": "arith", "n": 12, "families": [{"id": FAMILY.id}]}


def submit(pawl: Instance, questions: list[str], **changes: Any) -> str:
    """A training on rows that ask these questions."""
    rows = [
        {"messages": [{"role": "user", "content": text}], "completion": "5"} for text in questions
    ]
    spec = {"base_model": "sim/student", "data": {"rows": rows}, "evaluate": MEASURED}
    body = {"type": "train", "spec": spec | changes}
    made = pawl.store.write(lambda s: hand_jobs.submit_training(s, OWNER, pawl.home, body))
    return str(made.job_id)


def finish(pawl: Instance, job: str) -> Job:
    """The job's row once it has ended."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pawl.engine.tick()
        with pawl.store.read() as session:
            row = session.get_one(Job, job)
        if row.finished_at is not None:
            return row
        time.sleep(0.02)
    raise AssertionError(f"job {job} is still {row.status}: {row.reason}")


def tasks_of(pawl: Instance, job: str) -> set[str]:
    """What a job was measured on."""
    with pawl.store.read() as session:
        query = select(Sample.task).join(Evaluation).where(Evaluation.job == job)
        return set(session.exec(query))


def test_nothing_is_measured_that_a_row_asks(tmp_path: Path) -> None:
    seeded = {"training": {"seed": 3}}
    secret = hashlib.sha256(b"job|3").digest()
    drawn, _ = draw(secret, secret, "dev", FAMILY, 0, 12)
    with instance(tmp_path / "home") as pawl:
        plain = submit(pawl, ["What is 2 + 3?"], **seeded)
        again = submit(pawl, ["What is 3 + 3?"], **seeded)
        leaky = submit(pawl, [one.task.prompt.upper() for one in drawn], **seeded)
        other = submit(pawl, ["What is 2 + 3?"])
        for job in (plain, again, leaky, other):
            assert finish(pawl, job).status == "completed"
        expected = {one.task.id for one in drawn}
        assert tasks_of(pawl, plain) == tasks_of(pawl, again) == expected
        assert len(tasks_of(pawl, leaky)) == 12 and not tasks_of(pawl, leaky) & expected
        assert tasks_of(pawl, other) != expected


def test_the_guard_is_spread_evenly_and_never_told(tmp_path: Path) -> None:
    with instance(tmp_path / "home") as pawl:
        job = submit(pawl, ["What is 2 + 3?"], evaluate={"suite": "guard", "n": 1000})
        found = finish(pawl, job)
        guard = pawl.engine._bench.library.guard
        assert tasks_of(pawl, job) == {task.id for task in guard.tasks}
        few = submit(pawl, ["What is 2 + 3?"], evaluate={"suite": "guard", "n": 6})
        finish(pawl, few)
        families = {task.family for task in guard.tasks if task.id in tasks_of(pawl, few)}
    assert found.result["evaluation"]["split"] == "guard" and len(families) >= 3


def test_a_record_that_cannot_be_read_fails_its_job_alone(tmp_path: Path) -> None:
    with instance(tmp_path / "home") as pawl:
        broken = Job(id="job-broken", project_id="prj_local", type="train", spec={"rows": 3})
        pawl.store.write(lambda s: s.add(broken))
        assert finish(pawl, "job-broken").status == "failed"
        assert finish(pawl, submit(pawl, ["What is 2 + 3?"])).status == "completed"


def test_a_start_removes_the_files_of_what_was_never_taken_in(tmp_path: Path) -> None:
    with instance(tmp_path / "home") as pawl:
        kept = submit(pawl, ["What is 2 + 3?"])
        stray = job_folder(pawl.home, "job-stray")
        (stray / "rows.jsonl").write_text("{}\n")
    with instance(tmp_path / "home") as pawl:
        assert not stray.exists()
        assert finish(pawl, kept).status == "completed"
