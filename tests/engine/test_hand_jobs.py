"""Trainings without a loop inside the engine: what they are measured on, what a start tidies up."""

import hashlib
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, select

from app import hand_jobs
from data import ledger
from data.cleaning import delete_checkpoint
from data.disk import Room
from data.files import MANIFEST
from data.job_places import job_folder
from data.tables import Checkpoint, Evaluation, Job, JobControl, Run, Sample
from engine import disk
from engine.hand_train import STATE
from engine.splits import draw
from recipes.domains import DOMAINS
from tests.instance import OWNER, Instance, instance

FAMILY = DOMAINS["arith"].family("arith.add_carry")
MEASURED = {"suite": "arith", "n": 12, "families": [{"id": FAMILY.id}]}
SEEDED = {"training": {"seed": 3}}
SECRET = hashlib.sha256(b"job|3").digest()  # of a job with that seed


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
    """The job's row once it has ended, and what was driving it is over."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        pawl.engine.tick()
        with pawl.store.read() as session:
            row = session.get_one(Job, job)
        if row.finished_at is not None and pawl.engine._hand.holder != job:
            return row
        time.sleep(0.02)
    raise AssertionError(f"job {job} is still {row.status}: {row.reason}")


def tasks_of(pawl: Instance, job: str) -> set[str]:
    """What a job was measured on."""
    with pawl.store.read() as session:
        query = select(Sample.task).join(Evaluation).where(Evaluation.job == job)
        return set(session.exec(query))


def test_nothing_is_measured_that_a_row_asks(tmp_path: Path) -> None:
    drawn, _ = draw(SECRET, SECRET, "dev", FAMILY, 0, 12)
    with instance(tmp_path / "home") as pawl:
        plain = submit(pawl, ["What is 2 + 3?"], **SEEDED)
        again = submit(pawl, ["What is 3 + 3?"], **SEEDED)
        leaky = submit(pawl, [one.task.prompt.upper() for one in drawn], **SEEDED)
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


def test_the_numbers_of_a_row_are_not_asked_again_in_other_words(tmp_path: Path) -> None:
    drawn, _ = draw(SECRET, SECRET, "dev", FAMILY, 0, 12)
    numbers = [re.findall(r"\d+", one.task.prompt) for one in drawn]
    with instance(tmp_path / "home") as pawl:
        job = submit(pawl, [f"What do {b} and {a} make?" for a, b in numbers], **SEEDED)
        found = finish(pawl, job)
        assert not tasks_of(pawl, job) & {one.task.id for one in drawn}
        assert found.result["evaluation"]["met_in_rows"] == 12
        assert (found.reason or "").endswith("n 12; 12 tasks left out, which the rows ask")
        small = {"suite": "arith", "n": 2, "families": [{"id": FAMILY.id, "low": 1, "high": 1}]}
        every = [f"What is {a} + {b}?" for a in range(10) for b in range(10)]
        none = finish(pawl, submit(pawl, every, evaluate=small, **SEEDED))
    assert none.status == "failed" and "which the rows ask, were left out" in (none.reason or "")


def test_the_guard_is_not_asked_what_the_rows_ask(tmp_path: Path) -> None:
    with instance(tmp_path / "home") as pawl:
        guard = pawl.engine._bench.library.guard.tasks
        every = {"suite": "guard", "n": 150}
        leaky = submit(pawl, [f" {one.prompt.upper()}!" for one in guard[:9]], evaluate=every)
        found = finish(pawl, leaky)
        assert tasks_of(pawl, leaky) == {one.id for one in guard[9:]}
        assert found.result["evaluation"]["met_in_rows"] == 9
        whole = finish(pawl, submit(pawl, [one.prompt for one in guard], evaluate=every))
        assert whole.status == "failed" and not whole.result.get("checkpoint")
        assert f"the rows ask {len(guard)} of the {len(guard)} tasks" in (whole.reason or "")


def wait_for_reason(pawl: Instance, job: str, words: str) -> Job:
    """The job's row once it waits for that reason, and what was driving it is over."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        pawl.engine.tick()
        with pawl.store.read() as session:
            row = session.get_one(Job, job)
        waits = row.status == "queued" and words in (row.reason or "")
        if waits and pawl.engine._hand.holder != job:
            return row
        time.sleep(0.02)
    raise AssertionError(f"job {job} is {row.status}: {row.reason}")


def test_a_full_disk_is_waited_for_with_nothing_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with instance(tmp_path / "home") as pawl:
        full = Room(total=10**9, used=10**9, free=0)
        monkeypatch.setattr(disk, "room", lambda folder: full)
        job = submit(pawl, ["What is 2 + 3?"])
        begun = job_folder(pawl.home, job) / STATE / "step-3"
        begun.mkdir(parents=True)
        row = wait_for_reason(pawl, job, "free some space; the training then goes on by itself")
        assert row.finished_at is None and begun.exists()
        monkeypatch.undo()
        for _ in range(5):
            pawl.engine.tick()
        assert pawl.engine._hand.holder is None, "it does not rest between two tries"
        pawl.engine._hand._rests.clear()  # as if its time had come
        assert finish(pawl, job).status == "completed" and not begun.exists()


def test_a_cap_that_is_reached_is_waited_for_with_nothing_lost(tmp_path: Path) -> None:
    with instance(tmp_path / "home", micro_per_hour=10_000_000) as pawl:
        pawl.store.write(lambda s: cap(s, 0.01))
        job = submit(pawl, ["What is 2 + 3?"])
        begun = job_folder(pawl.home, job) / STATE / "step-3"
        begun.mkdir(parents=True)
        row = wait_for_reason(pawl, job, "once it is raised, the training goes on by itself")
        assert "total cap $0.01 reached" in str(row.reason) and begun.exists()
        pawl.store.write(lambda s: cap(s, 100))
        pawl.engine._hand._rests.clear()  # as if its time had come
        assert finish(pawl, job).status == "completed"


def cap(session: Session, dollars: float) -> None:
    ledger.open_account(session, "project:prj_local", "prj_local")
    ledger.set_caps(session, "project:prj_local", {"max_cost_usd": dollars})


def test_a_run_that_cannot_be_read_holds_up_nobody(tmp_path: Path) -> None:
    with instance(tmp_path / "home") as pawl:
        pawl.start("r1")
        unreadable = {"domain": "gone", "reason": "waits for the device, held by another"}
        pawl.store.write(
            lambda s: [setattr(s.get_one(Run, "r1"), n, v) for n, v in unreadable.items()]
        )
        assert finish(pawl, submit(pawl, ["What is 2 + 3?"])).status == "completed"


def test_a_checkpoint_made_once_more_has_no_name_of_before(tmp_path: Path) -> None:
    with instance(tmp_path / "home") as pawl:
        first = finish(pawl, submit(pawl, ["What is 2 + 3?"], **SEEDED)).result["checkpoint"]
        pawl.store.write(lambda s: setattr(s.get_one(Checkpoint, first), "name", "mine"))
        delete_checkpoint(pawl.store, pawl.home, first)
        again = finish(pawl, submit(pawl, ["What is 2 + 3?"], **SEEDED)).result["checkpoint"]
        with pawl.store.read() as session:
            made = session.get_one(Checkpoint, again)
            assert again == first and (made.name, made.deleted_at) == (None, None)


def test_one_that_waits_for_its_model_holds_up_nobody_and_can_be_stopped(tmp_path: Path) -> None:
    with instance(tmp_path / "home") as pawl:
        there = pawl.home.models / "gone" / MANIFEST
        there.parent.mkdir(parents=True)
        there.touch()
        job = submit(pawl, ["What is 2 + 3?"], base_model="gone")
        shutil.rmtree(there.parent)
        wait_for_reason(pawl, job, "there is no base model gone")
        assert finish(pawl, submit(pawl, ["What is 2 + 3?"])).status == "completed"
        begun = job_folder(pawl.home, job) / STATE
        begun.mkdir()
        stop = JobControl(project_id="prj_local", job=job, action="stop", author="owner")
        pawl.store.write(lambda s: s.add(stop))
        assert finish(pawl, job).reason == "stopped by owner" and not begun.exists()


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
