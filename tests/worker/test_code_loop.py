"""A code loop on the embedded model: what it writes is run in real sandboxes, all of it judged."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from data.home import open_home
from data.tables import Evaluation, Sample, Step, TrainingRow
from engine import verdicts
from engine.sandbox.docker_engine import DockerEngine
from engine.sandbox.owner import instance_of
from engine.types import ModelRef
from tests.instance import Instance, instance
from tests.sandbox.conftest import (
    PATIENCE,
    docker_engine,  # noqa: F401  skips where Docker is not there
)

pytestmark = pytest.mark.timeout(900)

RUN = "code-1"


@pytest.fixture(scope="module")
def pawl(
    tmp_path_factory: pytest.TempPathFactory, base: ModelRef, request: pytest.FixtureRequest
) -> Iterator[Instance]:
    """The loop with a handful of tasks, at its end."""
    request.getfixturevalue("docker_engine")
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(base.path, open_home(home).models / base.base)
    (home / "precision-cpu.json").write_text('{"precision": "float32"}')
    with pytest.MonkeyPatch.context() as patch, instance(home) as one:
        patch.setattr(verdicts, "SECONDS", PATIENCE)
        one.start(RUN, preset="code-smoke", base_model=base.base)
        one.engine.start()
        found = one.wait(RUN, seconds=840)
        assert (found.state, found.reason) == ("finished", "1 round, 0 promoted")
        yield one


def test_every_answer_has_a_verdict(pawl: Instance) -> None:
    evaluations = pawl.rows(Evaluation)
    assert [(one.split, one.version) for one in evaluations] == [
        ("dev", "base"),
        ("dev", "base"),
        ("diag", "base"),
        ("train", "base"),
        ("dev", "candidate-1"),
    ]
    for one in evaluations:
        assert one.scored == one.planned > 0
    samples = pawl.rows(Sample)
    assert {sample.score for sample in samples} <= {0.0, 1.0}
    assert samples and not {"sandbox_lost", "verifier_crashed"} & {one.reason for one in samples}


def test_it_trained_on_programs_that_were_right_when_they_were_run(pawl: Instance) -> None:
    programs = [row for row in pawl.rows(TrainingRow) if row.source != "replay"]
    assert len(programs) >= 16
    assert all(row.verifier.startswith("code-cases-v1:") for row in programs)
    steps = {step.step: step.status for step in pawl.rows(Step)}
    assert steps["admit"] == steps["train"] == steps["develop"] == "done"


def test_each_score_says_how_the_code_was_locked_up(pawl: Instance) -> None:
    engine = DockerEngine("-")
    image = engine.image
    engine.close()
    for one in pawl.rows(Evaluation):
        isolation = one.protocol["isolation"]
        assert isolation.keys() == {"runtime", "engine", "image", "flags"}
        assert isolation["image"] == image


def test_no_container_is_left(pawl: Instance) -> None:
    engine = DockerEngine("-")
    mine = {"label": f"instance={instance_of(Path(pawl.home.path))}"}
    deadline = time.monotonic() + 60  # the pool closes after the run has ended
    try:
        while left := engine._client.api.containers(all=True, filters=mine):
            assert time.monotonic() < deadline, left
            time.sleep(0.2)
    finally:
        engine.close()
