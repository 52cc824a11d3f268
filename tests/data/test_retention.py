"""What a home keeps: best, last two, what is in use; and what it parts with, in a safe order."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from data import cleaning, crash, events
from data.cleaning import CheckpointInUse, clean, delete_checkpoint
from data.files import verify_manifest
from data.home import Home, open_home
from data.job_places import ROWS, job_folder
from data.lifecycle import ENDED
from data.retention import Plan, plan_cleaning
from data.store import Store
from data.tables import Checkpoint, Event, Harness, Job, Project, Round
from data.tables import now as tables_now
from tests.data.run_rows import add_candidates, add_checkpoint, add_run
from tests.instance import OWNER, instance

LATER = timedelta(days=31)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path)


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    store = Store(home.database)
    store.write(lambda s: s.add(Project(id="p", workspace_id="w", name="n")))
    store.write(lambda s: s.add(Harness(id="h", project_id="p")))
    yield store
    store.close()


def on_disk(home: Home) -> set[str]:
    return {path.name for path in home.checkpoints.iterdir()}


def marked(store: Store) -> set[str]:
    with store.read() as session:
        return {row.id for row in session.exec(select(Checkpoint)) if row.deleted_at}


def planned(store: Store, home: Home, moment: datetime | None = None) -> Plan:
    with store.read() as session:
        return plan_cleaning(session, home, moment or now())


def now() -> datetime:
    return datetime.now(UTC)


def test_an_ended_run_keeps_its_best_and_its_last_two(store: Store, home: Home) -> None:
    add_run(store, "r", "finished", best="candidate-2")
    add_candidates(store, home, "r", ["a1", "a2", "a3", "a4", "a5"])
    plan = clean(store, home)
    assert on_disk(home) == {"a2", "a4", "a5"}
    assert {item.name for item in plan.going} == {"a1", "a3"} == marked(store)
    assert all(item.size >= 1000 for item in plan.going)
    reasons = {item.name: item.why for item in plan.staying}
    assert reasons == {
        "a2": "the best of r",
        "a4": "one of the last 2 of r",
        "a5": "one of the last 2 of r",
    }
    assert clean(store, home).going == []
    for name in on_disk(home):
        verify_manifest(home.checkpoints / name)


def test_a_plan_changes_nothing(store: Store, home: Home) -> None:
    add_run(store, "r", "finished")
    add_candidates(store, home, "r", ["a1", "a2", "a3"])
    assert [item.name for item in planned(store, home).going] == ["a1"]
    assert on_disk(home) == {"a1", "a2", "a3"} and not marked(store)


def test_what_is_in_use_stays_whatever_else_is_true_of_it(store: Store, home: Home) -> None:
    add_run(store, "r", "failed")
    add_candidates(store, home, "r", ["a1", "a2", "a3", "a4"])
    add_checkpoint(store, home, "by-hand")
    spec = {"adapter": "a1"}
    job = Job(id="j", project_id="p", type="inference", status="running", spec=spec)
    store.write(lambda s: s.add(job))
    plan = clean(store, home)
    assert on_disk(home) == {"a1", "a3", "a4", "by-hand"}
    reasons = {item.name: item.why for item in plan.staying}
    assert reasons["a1"] == "is deployed, by job j"
    assert reasons["by-hand"] == "was trained by hand"


@pytest.mark.parametrize("state", ["starting", "running", "paused"])
def test_an_unfinished_run_keeps_what_its_open_round_needs(
    store: Store, home: Home, state: str
) -> None:
    add_run(store, "r", state, best="candidate-3")
    add_candidates(store, home, "r", ["a1", "a2", "a3", "a4", "a5"])

    def open_round(s: Any) -> None:
        row = s.exec(select(Round).where(Round.number == 5)).one()
        row.outcome, row.start_version, row.candidate = None, "candidate-1", "candidate-5"

    store.write(open_round)
    clean(store, home)
    assert on_disk(home) == {"a1", "a3", "a4", "a5"}


def test_equal_trainings_of_two_runs_share_a_checkpoint_that_either_keeps(
    store: Store, home: Home
) -> None:
    add_run(store, "first", "finished")
    add_candidates(store, home, "first", ["same", "a2", "a3"])
    add_run(store, "second", "running", best="candidate-1")
    add_candidates(store, home, "second", ["same", "b2", "b3"])
    clean(store, home)
    assert "same" in on_disk(home)


def test_the_folder_goes_only_after_the_mark_is_committed(
    store: Store, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run(store, "r", "finished")
    add_candidates(store, home, "r", ["a1", "a2", "a3"])
    seen: list[set[str]] = []
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        seen.append(marked(store))  # another connection: what is committed
        real(source, target)

    monkeypatch.setattr(cleaning.os, "rename", rename)
    clean(store, home)
    assert seen == [{"a1"}]


def test_a_cleaning_that_was_cut_off_after_the_mark_is_ended_by_the_next(
    store: Store, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run(store, "r", "finished")
    add_candidates(store, home, "r", ["a1", "a2", "a3"])
    monkeypatch.setattr(cleaning, "_remove_checkpoint", lambda *_: None)
    clean(store, home)
    monkeypatch.undo()
    assert marked(store) == {"a1"} and "a1" in on_disk(home)
    assert [item.why for item in planned(store, home).going] == ["its removal was cut off"]
    clean(store, home)
    assert "a1" not in on_disk(home)


def test_a_checkpoint_that_an_equal_training_brought_back_is_not_removed(
    store: Store, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run(store, "r", "finished")
    add_candidates(store, home, "r", ["a1", "a2", "a3"])
    real = cleaning._remove_checkpoint

    def trained_again(*given: Any) -> None:
        def record(s: Any) -> None:
            s.get_one(Checkpoint, "a1").deleted_at = None

        store.write(record)
        real(*given)

    monkeypatch.setattr(cleaning, "_remove_checkpoint", trained_again)
    clean(store, home)
    verify_manifest(home.checkpoints / "a1")


def test_what_interrupted_writes_left_goes_once_it_is_old(store: Store, home: Home) -> None:
    add_run(store, "r", "running")
    names = [
        "checkpoints/adapter.tmp-1",
        "models/smol.tmp-2",
        "backups/x.tmp-3",
        "runs/r/rows.tmp-4",
    ]
    for name in [*names, "checkpoints/adapter.tmp-fresh"]:
        (home.path / name).mkdir(parents=True)
        (home.path / name / "part").write_bytes(bytes(10))
    long_ago = time.time() - 2 * 3600
    for path in [file for name in names for file in (home.path / name / "part", home.path / name)]:
        os.utime(path, (long_ago, long_ago))
    (home.path / "owner.key.tmp-5").touch()
    os.utime(home.path / "owner.key.tmp-5", (long_ago, long_ago))
    found = {item.name for item in clean(store, home).going}
    assert found == {*names, "owner.key.tmp-5"}
    assert not any((home.path / name).exists() for name in found)
    assert (home.checkpoints / "adapter.tmp-fresh" / "part").exists()


def test_what_a_killed_add_base_left_goes_unless_one_is_at_work(store: Store, home: Home) -> None:
    long_ago = time.time() - 2 * 3600
    for name in ("adding-dead", "adding-busy", "lab--tiny--0"):
        folder = home.models / ".downloads" / name
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes(10))
        os.utime(folder / "model.safetensors", (long_ago, long_ago))
        os.utime(folder, (long_ago, long_ago))
        (home.models / ".downloads" / f"{name}.lock").touch()
    with open(home.models / ".downloads" / "adding-busy.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = [item.name for item in clean(store, home).going]
    assert found == ["models/.downloads/adding-dead"]
    assert not (home.models / ".downloads" / "adding-dead").exists()


def test_a_checkpoint_that_no_row_names_is_shown_and_stays(store: Store, home: Home) -> None:
    (home.checkpoints / "deadbeefdeadbeef").mkdir()
    (item,) = clean(store, home).staying
    assert item.name == "deadbeefdeadbeef" and "delete its folder" in item.why
    assert on_disk(home) == {"deadbeefdeadbeef"}


def test_a_checkpoint_that_its_own_job_still_measures_cannot_be_deleted(
    store: Store, home: Home
) -> None:
    add_checkpoint(store, home, "a1")
    job = Job(id="j", project_id="p", type="train", status="running", result={"checkpoint": "a1"})
    store.write(lambda s: s.add(job))
    with pytest.raises(CheckpointInUse, match="job j still works with it: stop that first"):
        delete_checkpoint(store, home, "a1")

    def end(s: Any) -> None:
        s.get_one(Job, "j").status = "failed"

    store.write(end)
    delete_checkpoint(store, home, "a1")
    assert on_disk(home) == set()


def test_training_folders_of_rounds_that_are_over_go(store: Store, home: Home) -> None:
    add_run(store, "over", "stopped")
    add_run(store, "going", "running")
    for number, outcome in ((1, "completed"), (2, None)):
        row = Round(
            project_id="p", run="going", number=number, start_version="base", outcome=outcome
        )
        store.write(lambda s, row=row: s.add(row))  # type: ignore[misc]
    names = ["over/train-1", "going/train-1", "going/train-2", "unknown/train-1"]
    for name in names:
        (home.path / "runs" / name / "step-000010").mkdir(parents=True)
    found = [item.name for item in clean(store, home).going]
    assert found == ["runs/going/train-1", "runs/over/train-1"]
    left = {path.relative_to(home.path / "runs").as_posix() for path in home.path.glob("runs/*/*")}
    assert left == {"going/train-2", "unknown/train-1"}


def test_rows_of_trainings_by_hand_go_a_month_after_their_end(store: Store, home: Home) -> None:
    for name, status in (("over", "failed"), ("waits", "queued")):
        ended = tables_now() if status == "failed" else None
        job = Job(id=name, project_id="p", type="train", status=status, finished_at=ended)
        store.write(lambda s, job=job: s.add(job))  # type: ignore[misc]
        (job_folder(home, name) / ROWS).write_bytes(bytes(1000))
    assert clean(store, home, moment=now() + timedelta(days=29)).going == []
    (item,) = planned(store, home, moment=now() + LATER).going
    assert (item.kind, item.name, item.size) == ("rows", "jobs/over/rows.jsonl", 1000)
    assert item.why == "of a training that ended more than 30 days ago"
    clean(store, home, moment=now() + LATER)
    left = [path.parent.name for path in home.path.glob(f"jobs/*/{ROWS}")]
    assert left == ["waits"]


def add_events(store: Store, run: str, kinds: list[str]) -> None:
    def change(s: Any) -> None:
        for kind in kinds:
            events.append(s, run, kind, f"a {kind}")

    store.write(change)


def kinds_left(store: Store, run: str) -> list[str]:
    with store.read() as session:
        query = select(Event.kind).where(Event.run == run).order_by(Event.seq)  # type: ignore[arg-type]
        return list(session.exec(query))


def test_old_events_of_ended_runs_go_except_rounds_and_errors(
    store: Store, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "EVENTS_AT_ONCE", 2)
    kinds = ["message", "round", "tool_result", "tool_call", "error", "steer", "job", "message"]
    for run, state in (("over", "finished"), ("going", "running")):
        add_run(store, run, state)
        add_events(store, run, kinds)
    assert clean(store, home, moment=now() + timedelta(days=29)).going == []
    (item,) = clean(store, home, moment=now() + LATER).going
    assert (item.kind, item.name, item.size) == ("events", "over", 5)
    assert kinds_left(store, "over") == ["round", "error", "message"]
    assert kinds_left(store, "going") == kinds


def test_event_numbers_go_on_after_a_cleaning(store: Store, home: Home) -> None:
    add_run(store, "r", "finished")
    add_events(store, "r", ["message"] * 5)
    clean(store, home, moment=now() + LATER)
    assert store.write(lambda s: events.append(s, "r", "message", "extended")) == 6


def test_cleaning_all_the_time_takes_nothing_from_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times a second, through four rounds: each still finds what it starts from."""
    cleaned = threading.Event()

    def let_clean(name: str) -> None:
        for _ in range(2 if name == "after_round_begin" else 0):
            cleaned.clear()
            cleaned.wait(60)

    monkeypatch.setattr(crash, "point", let_clean)
    with instance(tmp_path) as pawl:
        pawl.engine.start()
        pawl.start("r", rounds=4)
        gone = set()
        while pawl.service.run_detail(OWNER, "r").state not in ENDED:
            plan = clean(pawl.store, pawl.home)
            gone |= {item.name for item in plan.going if item.kind == "checkpoint"}
            cleaned.set()
            time.sleep(0.1)
        assert pawl.wait("r").state == "finished"
        with pawl.store.read() as session:
            assert {row.outcome for row in session.exec(select(Round))} == {"completed"}
        assert gone == marked(pawl.store), "or nothing was cleaned"
        assert gone and not gone & on_disk(pawl.home)


def test_what_needs_no_mark_goes_first_and_makes_the_room_for_the_marks(
    store: Store, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run(store, "r", "finished")
    add_candidates(store, home, "r", ["a1", "a2", "a3"])
    training = home.path / "runs" / "r" / "train-1"
    training.mkdir(parents=True)
    real, there = store.write, []

    def write(change: Any) -> Any:
        there.append(training.exists())
        return real(change)

    monkeypatch.setattr(store, "write", write)
    clean(store, home)
    assert there[0] is False and marked(store) == {"a1"}
