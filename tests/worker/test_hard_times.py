"""A worker on its worst day: it is ended with its group, replaced once, and then the work has failed."""

import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from engine import resources
from engine.children import ChildInfo, is_alive
from engine.errors import WorkerLost
from engine.models.worker_engine import WorkerEngine
from engine.models.worker_link import STALL_SECONDS as USUAL_LIMIT
from engine.models.worker_link import StepWatch
from engine.types import Answer, ModelRef, TrainProgress
from tests.server.process import is_running
from tests.waiting import eventually
from tests.worker.samples import Collector, asks, job, never
from tests.worker.tiny_loop import events, rests, tiny_loop

KINDS = ("sleep", "spin", "stubborn", "crash")
STALL_SECONDS = 8.0


class Case:
    """A worker of one kind, what was started for it, and what that left behind."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder / kind, kind
        self.folder.mkdir()
        self.workers: list[ChildInfo] = []
        self.engine = WorkerEngine(
            log_dir=self.folder,
            precision="float32",
            threads=1,
            stall_seconds=STALL_SECONDS,
            record_child=self.workers.append,
            command=(sys.executable, "-m", "tests.worker.hard_times", kind, str(self.folder)),
        )

    def befalls(self, work: str, how: str = "") -> None:
        """It will happen in this work; "once" to its first worker alone."""
        (self.folder / work).write_text(how)

    def check_gone(self) -> None:
        """Neither the workers nor the children that they had are left."""
        assert not any(is_alive(worker) for worker in self.workers)
        note = self.folder / "grandchildren"
        pids = note.read_text().split() if note.exists() else []
        assert bool(pids) == (self.kind in {"stubborn", "crash"})
        eventually(lambda: not any(is_running(int(pid)) for pid in pids))


def on_all(kinds: tuple[str, ...], folder: Path, story: Callable[[Case], None]) -> None:
    """Tell the story for several kinds side by side, since most of it is waiting."""

    def tell(kind: str) -> None:
        case = Case(folder, kind)
        try:
            story(case)
        finally:
            case.engine.close()
        case.check_gone()

    with ThreadPoolExecutor(len(kinds)) as pool:
        list(pool.map(tell, kinds))


def test_lost_work_goes_on_once_with_a_new_worker(tiny: ModelRef, tmp_path: Path) -> None:
    def story(case: Case) -> None:
        case.befalls("train", "once")
        seen: list[TrainProgress] = []
        training = job(case.folder, tiny, checkpoint_seconds=0.0)
        result = case.engine.train(training, seen.append, never)
        assert result.resumed_from == 1 and result.steps == 6
        assert [point.step for point in seen] == [1, 2, 3, 4, 5, 6]
        assert len(case.workers) == 2 and not is_alive(case.workers[0])
        (note,) = [point.note for point in seen if point.note]
        lost = rf"no progress for {STALL_SECONDS:.0f} s in train|ended with status -6 in train"
        assert re.search(lost, note)
        assert note.endswith("; a new one goes on")

        if case.kind in {"sleep", "stubborn"}:  # as in training
            return
        case.befalls("generate", "once")
        answers: dict[str, Answer] = {}
        case.engine.generate(tiny, asks(3), Collector(answers), never)
        assert len(answers) == 3
        assert len(case.workers) == 3 and not is_alive(case.workers[1])

    on_all(KINDS, tmp_path, story)


def test_answers_lost_twice_have_failed_with_the_reason(tiny: ModelRef, tmp_path: Path) -> None:
    def story(case: Case) -> None:
        case.befalls("generate")
        lost = f"no progress for {STALL_SECONDS:.0f} s in generate and was ended, twice"
        with pytest.raises(WorkerLost, match=lost):
            case.engine.generate(tiny, asks(2), lambda batch: None, never)
        assert len(case.workers) == 2 and case.engine.pid is None

    on_all(("sleep",), tmp_path, story)


def test_a_round_whose_worker_is_lost_twice_has_failed_with_the_reason(
    tiny: ModelRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (sys.executable, "-m", "tests.worker.hard_times", "crash", str(tmp_path))
    monkeypatch.setattr(resources, "WorkerEngine", partial(WorkerEngine, command=command))
    (tmp_path / "train").touch()
    with tiny_loop(tmp_path, tiny) as pawl:
        (failed,) = rests(pawl, "finished").rounds
        said = events(pawl)
    assert failed.outcome == "failed"
    assert re.match(r"the worker ended with status -6 in train, twice; its log is ", failed.reason)
    assert [text for text in said if text == f"round 1 failed: {failed.reason}"]


def test_slow_steps_are_told_from_none_at_all() -> None:
    """Ten minutes, or twenty times the median step; a step back to a checkpoint is no step."""
    watch = StepWatch()

    def saw(*seconds: float) -> None:
        for each in seconds:
            watch.saw(TrainProgress(step=1, steps=9, loss=1.0, seconds=each))

    assert watch.limit() == USUAL_LIMIT == 600
    saw(10, 20, 30)
    assert watch.limit() == 600
    saw(130, 230, 330, 430)
    assert watch.limit() == 2000
    saw(130, 230)
    assert watch.limit() == 2000
