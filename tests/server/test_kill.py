"""The real worker at work when its server is killed: the next server carries the run on.

With a tiny model; `--long` does the same with the embedded one.
"""

import os
import shutil
from pathlib import Path

import pytest
from sqlmodel import col, select

from data.tables import Evaluation, Round, Run, Sample, Step, TrainPoint, Version
from engine.models.registry import EMBEDDED
from engine.types import ModelRef
from tests.server.process import Server, is_running
from tests.stopwatch import Stopwatch, seconds_until
from tests.worker.tiny_loop import lay_model

ENDED = ("finished", "failed", "stopped")
RUN = "smoke-1"
MODEL = EMBEDDED if os.environ.get("PAWL_LONG") == "1" else "tiny"

pytestmark = pytest.mark.timeout(600)


def finish(server: Server, seconds: float = 240) -> Run:
    """The run's row once it has ended."""
    query = select(Run).where(Run.id == RUN, col(Run.state).in_(ENDED))
    found: Run = server.wait_for(query, seconds)[0]
    return found


def outcome(server: Server) -> dict:
    """What must be the same however often the server died."""
    rounds = server.read(select(Round))
    samples = server.read(select(Sample))
    return {
        "decisions": [(r.number, r.decision, r.reason, r.rows) for r in rounds],
        "versions": sorted(v.version_hash for v in server.read(select(Version))),
        "evaluations": sorted(
            (e.round, e.version, e.split, e.repeat, e.mean) for e in server.read(select(Evaluation))
        ),
        "samples": sorted((s.evaluation, s.task, s.attempt, s.text) for s in samples),
    }


@pytest.fixture(scope="module")
def golden(tmp_path_factory, base: ModelRef, tiny: ModelRef):
    """An uninterrupted run, and the home that it left."""
    home = tmp_path_factory.mktemp("golden")
    lay(home, base if MODEL == EMBEDDED else tiny)
    server = Server(home)
    try:
        start(server)
        run = finish(server)
        assert run.state == "finished", run.reason
        assert not list(server.home.run_folder(RUN).glob("train-*"))
        yield server.home, outcome(server)
    finally:
        server.close()


def lay(home: Path, model: ModelRef) -> None:
    """Put the model into a home, with a precision that needs no measuring."""
    if MODEL != EMBEDDED:
        return lay_model(home, model)
    shutil.copytree(model.path, home / "models" / EMBEDDED)
    (home / "precision-cpu.json").write_text('{"precision": "bfloat16"}')


def start(server: Server) -> None:
    server.start_run(run=RUN, preset="smoke", base_model=MODEL)


@pytest.fixture
def server(tmp_path, golden):
    """A fresh home that shares the base model."""
    (tmp_path / "models").symlink_to(golden[0].models)
    measured = golden[0].path / "precision-cpu.json"
    (tmp_path / measured.name).write_bytes(measured.read_bytes())
    servers = [Server(tmp_path)]
    yield servers
    servers[-1].close()


AT_WORK = {
    "training": select(TrainPoint).where(TrainPoint.step >= 5),
    "evaluation": select(Step).where(
        Step.step == ("blind" if MODEL == EMBEDDED else "develop"), Step.status == "intent"
    ),
}


@pytest.mark.parametrize("moment", sorted(AT_WORK))
def test_a_server_killed_in_the_middle_is_carried_on_by_the_next_one(server, golden, moment):
    start(server[0])
    server[0].wait_for(AT_WORK[moment], 240)
    workers = server[0].children()
    assert workers
    server[0].kill()
    assert seconds_until(lambda: not any(is_running(pid) for pid in workers)) < 5
    before = {step.id for step in server[0].read(select(Step))}
    watch = Stopwatch()
    server.append(Server(server[0].home.path))
    server[1].wait_for(select(Step).where(col(Step.id).not_in(before)), 60)
    assert watch.stop() < 10
    assert finish(server[1]).state == "finished"
    assert outcome(server[1]) == golden[1]
    done = [(s.round, s.step) for s in server[1].read(select(Step)) if s.status == "done"]
    assert len(done) == len(set(done))


def test_sigterm_in_training_leaves_the_run_resumable_and_no_child(server, golden):
    start(server[0])
    server[0].wait_for(AT_WORK["training"], 240)
    workers = server[0].children()
    assert server[0].terminate() == 0
    assert not any(is_running(pid) for pid in workers)
    left = server[0].run(RUN)
    assert left.state == "paused" and left.reason.startswith("interrupted")
    steps = server[0].read(select(TrainPoint))
    server.append(Server(server[0].home.path))
    assert finish(server[1]).state == "finished"
    assert outcome(server[1]) == golden[1]
    assert len(server[1].read(select(TrainPoint))) >= len(steps)
