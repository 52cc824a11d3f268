"""The machine of a server: what a run needs beside what there is, and who gives way to whom."""

import json
import subprocess
import sys

import pytest

from app.errors import Conflict
from data.job_places import ROWS, jobs_folder
from data.memory import memory
from data.tables import Checkpoint, Child, Job, Round, Run, Setting, Step
from engine import spots, timetable
from engine.cards import Card
from engine.facts import JobFacts, read_facts
from engine.machine import Machine
from tests.instance import LIBRARY, OWNER, instance

GB = 10**9
REAL = {"preset": "smoke", "limits": {"max_model_cost_usd": 1.0}}


def test_a_run_that_can_never_fit_is_refused_at_its_start(tmp_path, monkeypatch):
    monkeypatch.setattr(timetable, "MARGIN", 10**15)
    with instance(tmp_path) as pawl, pytest.raises(Conflict) as refused:
        pawl.start("r", **REAL)
    assert refused.value.reason == "UNSUPPORTED_HARDWARE"
    assert "at least 2.6 GB of memory" in str(refused.value)
    assert f"main memory has {memory()[0] / GB:.1f} GB in all" in str(refused.value)


def test_a_run_that_lacks_memory_now_waits_for_it(tmp_path, monkeypatch):
    with instance(tmp_path) as pawl:
        pawl.start("r", **REAL)
        monkeypatch.setattr(timetable, "MARGIN", 10**15)
        pawl.engine.tick()
        run = pawl.service.run_detail(OWNER, "r")
        assert run.state == "starting"
        assert run.reason.startswith("waits for the device: needs 2.6 GB, and ")
        assert "of main memory is free" in run.reason
        assert pawl.service.device(OWNER).waiting == ["r"]


def test_the_machine_is_shown_with_its_memory_and_a_run_ahead_with_its_need(tmp_path):
    with instance(tmp_path) as pawl:
        (seen,) = pawl.service.device(OWNER).memory
        assert seen.device == "cpu" and 0 < seen.free < seen.total == memory()[0]
        ahead = pawl.service.memory_ahead(OWNER, "smoke")
        assert ahead.least < ahead.usual and ahead.measured is None
        assert pawl.service.memory_ahead(OWNER, "sim") is None


@pytest.fixture
def narrow(tmp_path, monkeypatch):
    """A machine of 24 GB of which 3 GB are free, with a run on the embedded model."""
    monkeypatch.setattr(spots, "memory", lambda: (24 * GB, 3 * GB))
    monkeypatch.setattr(spots, "PATIENCE", 60.0)
    with instance(tmp_path) as pawl:
        pawl.start("carry-1", **REAL)
        machine = Machine(pawl.store, pawl.home, LIBRARY, "cpu")
        yield pawl, machine


def test_what_serves_makes_room_for_a_phase_that_does_not_fit_beside_it(narrow):
    pawl, machine = narrow
    with pawl.store.read() as session:
        run = read_facts(session.get_one(Run, "carry-1"), LIBRARY, pawl.home)
    asleep, refused = [], []

    def make_room():
        asleep.append("all")
        refused.append(machine.may_serve(GB))  # a call that comes meanwhile

    machine.make_room = make_room
    with machine.phase(run, "diagnose") as device:
        assert device == "cpu" and asleep == []  # 2.6 GB of 3 GB
    with machine.phase(run, "train"):
        assert asleep == ["all"]  # up to 6.0 GB
        assert "while carry-1 (train) has it" in refused[0]
        why = machine.may_serve(GB)
        assert "while carry-1 (train) has it; it answers again when that phase has ended" in why
    assert machine.may_serve(GB) is None
    machine.make_room = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError), machine.phase(run, "train"):
        pass
    assert machine.may_serve(GB) is None


def test_rows_by_hand_are_reckoned_with_as_long_as_they_are(narrow):
    pawl, machine = narrow
    job = JobFacts(
        id="train-7",
        project_id=OWNER.project_id,
        secret=b"",
        simulated=False,
        base_model="SmolLM2-135M-Instruct",
        spec={"base_model": "SmolLM2-135M-Instruct", "lora": {"batch_size": 4}},
        home=pawl.home,
    )
    asleep = []
    machine.make_room = lambda: asleep.append("all")
    for words, all_asleep in (("one two three " * 5, []), ("one two three " * 500, ["all"])):
        row = {"messages": [{"role": "user", "content": words}], "completion": "4", "ends": True}
        (job.folder / ROWS).write_text(json.dumps(row) + "\n")
        with machine.phase(job, "train"):
            assert asleep == all_asleep


def by_hand(pawl):
    """A training by hand that has been submitted."""
    rows = [{"messages": [{"role": "user", "content": "2 + 2 = ?"}], "completion": "4"}]
    spec = {"base_model": "SmolLM2-135M-Instruct", "data": {"rows": rows}}
    made = pawl.service.submit_job(OWNER, {"type": "train", "spec": spec})
    with pawl.store.read() as session:
        return session.get_one(Job, made.job_id)


def test_a_training_by_hand_that_lacks_memory_waits_for_it(narrow, monkeypatch):
    pawl, machine = narrow
    job = by_hand(pawl)
    monkeypatch.setattr(spots, "memory", lambda: (24 * GB, 4 * GB))
    assert Machine(pawl.store, pawl.home, LIBRARY, "cpu").why_no_room(job) is None
    monkeypatch.setattr(spots, "memory", lambda: (24 * GB, GB))
    assert machine.why_no_room(job).startswith("waits for the device: needs ")
    pawl.engine.machine._spots.look()
    pawl.engine.tick()
    assert "of main memory is free" in pawl.service.job(OWNER, job.id).reason


def test_a_training_by_hand_that_no_bound_lets_fit_is_tried(narrow, monkeypatch):
    """The bound is an upper one, and no door has refused it: it may well fit."""
    pawl, machine = narrow
    monkeypatch.setattr(spots, "memory", lambda: (2 * GB, GB))
    job = by_hand(pawl)
    with pawl.store.read() as session:
        run = session.get_one(Run, "carry-1")
    assert machine.why_no_room(job) is None
    assert machine.why_no_room(run).startswith("waits for the device: needs ")


def test_the_rows_of_a_training_that_waits_are_read_once(narrow, monkeypatch):
    pawl, machine = narrow
    job = by_hand(pawl)
    monkeypatch.setattr(spots, "memory", lambda: (24 * GB, GB))
    why = machine.why_no_room(job)
    (jobs_folder(pawl.home) / job.id / ROWS).unlink()
    assert why is not None and machine.why_no_room(job) == why


@pytest.fixture
def two_cards(narrow, monkeypatch):
    """The same machine with two cards of 48 GB."""
    pawl, _ = narrow
    cards = [
        Card(index=at, uuid=f"GPU-{at}", name="A6000", total=48 * GB, free=47 * GB) for at in (0, 1)
    ]
    monkeypatch.setattr(spots, "read_cards", lambda: cards)
    monkeypatch.setattr(spots, "read_uses", list)
    return pawl, Machine(pawl.store, pawl.home, LIBRARY, "cuda:0")


def choose(pawl, **settings):
    for name, value in settings.items():
        pawl.store.write(lambda s, n=name, v=value: s.merge(Setting(name=n, value=v)))


def test_a_model_over_two_cards_needs_half_of_itself_on_each(two_cards):
    pawl, machine = two_cards
    choose(pawl, tensor_parallel="2")
    assert machine.may_serve(64 * GB) is None
    assert "of A6000 (cuda:0) is free" in machine.may_serve(100 * GB)


def test_nothing_begins_to_serve_over_a_card_that_trains(two_cards):
    pawl, machine = two_cards
    choose(pawl, train_device="cuda:1", serve_device="cuda:0", tensor_parallel="2")
    with pawl.store.read() as session:
        run = read_facts(session.get_one(Run, "carry-1"), LIBRARY, pawl.home)
    with machine.phase(run, "train") as device:
        assert device == "cuda:1"
        assert "while carry-1 (train) has it" in machine.may_serve(90 * GB)
        assert machine.serving_places(10 * GB).spare_bytes > 4 * GB
    assert machine.may_serve(90 * GB) is None


def test_an_idle_worker_ends_for_a_process_that_serves(narrow):
    pawl, machine = narrow
    ended = []
    machine.rest_worker = lambda: ended.append("worker")
    code = "held = b'x' * 200_000_000; print('up', flush=True); input()"
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1)
    worker.stdout.readline()
    row = Child(pid=worker.pid, pgid=0, started="0", command="", purpose="worker")
    pawl.store.write(lambda s: s.add(row))
    free = 3 * GB - timetable.MARGIN
    assert machine.may_serve(free) is None and ended == []
    assert machine.may_serve(free + 150_000_000) is None and ended == ["worker"]
    assert "pause another endpoint" in machine.may_serve(free + GB)
    worker.communicate()


def test_what_a_training_took_is_what_the_next_one_like_it_is_reckoned_with(narrow):
    pawl, machine = narrow
    before = pawl.service.memory_ahead(OWNER, "smoke")
    assert before.measured is None
    pawl.store.write(lambda s: record_training(s, "carry-1", 2 * GB))
    after = pawl.service.memory_ahead(OWNER, "smoke")
    assert (after.measured, after.measured_in, after.least) == (2 * GB, "carry-1", 2 * GB)
    with pawl.store.read() as session:
        run = session.get_one(Run, "carry-1")
    need = machine.need(run.domain, run.base_model, run.config)
    assert need.expected == 2_300_000_000
    (round_,) = pawl.service.run_detail(OWNER, "carry-1").rounds
    assert (round_.memory.peak_bytes, round_.memory.on) == (2 * GB, "cpu")


def test_vllm_leaves_a_card_to_training_what_that_is_going_to_need(narrow, monkeypatch, tmp_path):
    pawl, _ = narrow
    card(tmp_path, monkeypatch, free_mib=20_000)
    machine = Machine(pawl.store, pawl.home, LIBRARY, "cuda")
    assert machine.devices() == ["cuda:0", "cpu"]
    places = machine.serving_places(2 * GB)
    assert 2 * GB < places.spare_bytes < 6 * GB and places.visible_cards == "0"
    assert machine.serving_places(18 * GB).spare_bytes == 0  # they take turns
    pawl.store.write(lambda s: s.merge(Setting(name="train_device", value="cpu")))
    pawl.store.write(lambda s: s.merge(Setting(name="serve_device", value="cuda:0")))
    assert machine.serving_places(2 * GB).spare_bytes == 0  # they do not meet


def card(tmp_path, monkeypatch, free_mib):
    """A driver's tool that tells of one card, on which nobody computes."""
    tool = tmp_path / "nvidia-smi"
    line = f"0, GPU-1a2b, RTX 4090, 24564, {free_mib}"
    tool.write_text(f"#!/bin/sh\ncase $1 in *gpu=*) echo '{line}';; esac\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("engine.cards.SECONDS", 60.0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def record_training(s, run, peak):
    """The rows of a run's first round, whose training was measured."""
    training = {"peak_bytes": peak, "peak_on": "cpu"}
    done = {"training": training}
    s.get_one(Run, run).round = 1
    s.add(Round(project_id=OWNER.project_id, run=run, number=1, start_version="base"))
    s.add(Step(run=run, round=1, step="train", epoch=1, status="done", result=done))
    checkpoint = Checkpoint(
        id="1a2b",
        project_id=OWNER.project_id,
        run=run,
        base_model="SmolLM2-135M-Instruct",
        base_revision="r",
        size_bytes=1,
        training=training,
    )
    s.add(checkpoint)
