"""The worker process: what it does, how it fails, and that it never outlives its parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.children import ROOT, ChildInfo, is_alive
from engine.errors import Interrupted, ModelUnavailable, OutOfMemory, WorkerFailed, WorkerLost
from engine.models.registry import with_adapter
from engine.models.worker_engine import WorkerEngine
from engine.types import Answer, Ask, ModelRef, Stop, TrainProgress
from engine.worker import describe
from tests.stopwatch import seconds_until
from tests.worker.samples import Collector, asks, job, messages, never


def _engine(tmp_path: Path, kind: str = "", **more: object) -> WorkerEngine:
    command = (sys.executable, "-m", "tests.worker.hard_times", kind, str(tmp_path))
    if kind:
        more["command"] = command
    return WorkerEngine(log_dir=tmp_path, precision="float32", threads=1, **more)  # type: ignore[arg-type]


def test_a_loop_of_answers_training_and_better_answers(
    engine: WorkerEngine, base: ModelRef, tmp_path: Path
) -> None:
    before: dict[str, Answer] = {}
    engine.generate(base, asks(6), Collector(before), never)
    assert engine.name == "transformers-cpu-float32"
    assert set(before) == {str(number) for number in range(6)}

    steps: list[TrainProgress] = []
    training = job(tmp_path, base, rows=40, batch_size=10, learning_rate=2e-3, rank=8)
    result = engine.train(training, steps.append, never)
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert steps[-1].loss == result.loss_last < result.loss_first

    trained: dict[str, Answer] = {}
    worn = with_adapter(base, Path(result.adapter_dir))
    engine.generate(worn, asks(6), Collector(trained), never)
    assert len(trained) == 6
    assert all(str(answer.text).strip().isdigit() for answer in trained.values())
    again: dict[str, Answer] = {}
    engine.generate(base, asks(6), Collector(again), never)
    assert again == before != trained


def test_precision_is_measured_when_none_is_given(tiny: ModelRef, tmp_path: Path) -> None:
    engine = WorkerEngine(log_dir=tmp_path, threads=1)
    try:
        name = engine.prepare(tiny)
    finally:
        engine.close()
    tried = engine.process.tried
    assert set(tried) == {"float32", "bfloat16"}
    fastest = min(tried, key=lambda precision: tried[precision])
    assert engine.process.precision == fastest
    assert name == f"transformers-cpu-{fastest}"


def test_stop_is_taken_within_ten_seconds_while_answering_and_training(
    engine: WorkerEngine, base: ModelRef, tmp_path: Path
) -> None:
    story = Ask(key="story", messages=messages("Tell me a long story."), max_tokens=4000)
    assert _seconds_to_stop(lambda stop: engine.generate(base, [story], lambda b: None, stop)) < 10
    training = job(tmp_path, base, rows=64, epochs=50)
    assert _seconds_to_stop(lambda stop: _ignore(engine.train(training, lambda s: None, stop))) < 10
    assert list((tmp_path / "state").glob("step-*/manifest.json"))
    pid = engine.pid
    engine.generate(base, asks(1), lambda batch: None, never)
    assert engine.pid == pid  # the same worker goes on


def _ignore(_result: object) -> None:
    pass


def _seconds_to_stop(call: Callable[[Stop], None]) -> float:
    asked_at: list[float] = []

    def stop() -> bool:
        return bool(asked_at)

    timer = threading.Timer(2.0, lambda: asked_at.append(time.monotonic()))
    timer.start()
    with pytest.raises(Interrupted):
        call(stop)
    timer.join()
    return time.monotonic() - asked_at[0]


def test_a_broken_model_is_refused_by_name(engine: WorkerEngine, base: ModelRef) -> None:
    other = ModelRef(base=base.base, path=base.path, revision="0" * 16)
    with pytest.raises(ModelUnavailable, match="is not revision 0000"):
        engine.generate(other, asks(1), lambda batch: None, never)


def test_an_error_in_the_callers_hands_stops_the_worker_and_comes_back(
    engine: WorkerEngine, base: ModelRef
) -> None:
    def full(batch: list[Answer]) -> None:
        raise RuntimeError("the database is full")

    with pytest.raises(RuntimeError, match="the database is full"):
        engine.generate(base, asks(2), full, never)
    answers: dict[str, Answer] = {}
    engine.generate(base, asks(1), Collector(answers), never)
    assert answers


def test_prompts_and_answers_never_reach_the_log(tiny: ModelRef, tmp_path: Path) -> None:
    engine = _engine(tmp_path)
    canary = "CANARY-93517"
    try:
        ask = Ask(key="k", messages=messages(f"Say {canary}"), max_tokens=3)
        engine.generate(tiny, [ask], lambda batch: None, never)
        wrong = Ask(key="k", messages=[{"role": "user", "text": canary}], max_tokens=3)
        with pytest.raises(WorkerFailed) as failed:
            engine.generate(tiny, [wrong], lambda batch: None, never)
    finally:
        engine.close()
    log = (tmp_path / "worker.log").read_text()
    assert "answered 1 asks" in log and str(failed.value).split(" at ")[0].split()[-1] in log
    assert canary not in log and canary not in str(failed.value)


def test_an_unforeseen_error_is_told_by_its_place_and_not_by_its_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its text may quote the prompt that caused it."""
    quoted = "CANARY-93517"  # not on the line that raises, which may be told
    try:
        raise KeyError(quoted)
    except KeyError as error:
        kind, text = describe(error)
    assert kind == "broken"
    assert text.startswith("KeyError at test_worker.py:")
    assert "CANARY" not in text + capsys.readouterr().err


def test_a_crash_is_an_error_and_the_next_call_has_a_new_worker(
    tiny: ModelRef, tmp_path: Path
) -> None:
    children: list[ChildInfo] = []
    engine = _engine(tmp_path, "crash", record_child=children.append, forget_child=children.remove)
    (tmp_path / "train").touch()
    try:
        with pytest.raises(WorkerLost, match="ended with status -6 in train"):
            engine.train(job(tmp_path, tiny), lambda step: None, never)
        assert children == []
        answers: dict[str, Answer] = {}
        engine.generate(tiny, asks(2), Collector(answers), never)
        assert len(answers) == 2 and [child.pid for child in children] == [engine.pid]
    finally:
        engine.close()
    assert children == []


@pytest.mark.parametrize("kind", ["memory", "killed"])
def test_without_memory_the_batch_is_halved_in_a_fresh_worker(
    kind: str, tiny: ModelRef, tmp_path: Path
) -> None:
    plain = _engine(tmp_path / "plain")
    starved = _engine(tmp_path / "starved", kind)
    try:
        whole = plain.train(job(tmp_path / "a", tiny), lambda step: None, never)
        halved = starved.train(job(tmp_path / "b", tiny), lambda step: None, never)
        assert (whole.batch_size, halved.batch_size) == (4, 2)
        assert halved.loss_last == pytest.approx(whole.loss_last, abs=1e-4)
        answers: dict[str, Answer] = {}
        starved.generate(tiny, asks(50), Collector(answers), never)
        assert len(answers) == 50
    finally:
        plain.close()
        starved.close()


def test_after_three_tries_the_numbers_are_told(tiny: ModelRef, tmp_path: Path) -> None:
    engine = _engine(tmp_path, "memory")
    try:
        with pytest.raises(OutOfMemory, match="16 rows at once.*8 rows at once.*4 rows at once"):
            big = job(tmp_path, tiny, rows=16, batch_size=16)
            engine.train(big, lambda step: None, never)
    finally:
        engine.close()


PARENT = """
import sys
from pathlib import Path
from engine.models.registry import find_base
from engine.models.worker_engine import WorkerEngine
from tests.worker.samples import job

folder = Path(sys.argv[1])
model = find_base(Path(sys.argv[2]).parent, Path(sys.argv[2]).name)
engine = WorkerEngine(log_dir=folder, precision="float32", threads=1,
                      record_child=lambda info: print(info.pid, info.started, flush=True))
training = job(folder, model, rows=64, epochs=10_000)
engine.train(training, lambda step: print("step", flush=True), lambda: False)
"""


def test_the_worker_is_gone_within_five_seconds_of_its_parents_sudden_death(
    tiny: ModelRef, tmp_path: Path
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), tiny.path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid, started = (int(word) for word in parent.stdout.readline().split())
        assert parent.stdout.readline() == "step\n"  # it is in the middle of training
        command = f"{sys.executable} -m engine.worker"
        info = _exactly(pid, started, command)
        assert is_alive(info)
        parent.send_signal(signal.SIGKILL)
        parent.wait(60)
    assert seconds_until(lambda: not is_alive(info)) < 5
    assert parent.returncode == -signal.SIGKILL


def _exactly(pid: int, started: int, command: str) -> ChildInfo:
    line = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
    assert line.startswith(command)
    assert os.getpgid(pid) == pid
    return ChildInfo(pid=pid, started=started, pgid=pid, command=line)
