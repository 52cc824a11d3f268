"""A run of the code domain when Docker goes away: it waits for a person, and no score comes of it."""

from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from data.tables import Evaluation
from engine.sandbox.docker_engine import DockerEngine
from tests.instance import OWNER, Instance, instance

SMALL = {
    "max_model_cost_usd": 1.0,
    "diag_per_family": 4,
    "dev_n": 12,
    "collect_tasks": 16,
    "admission_n": 8,
    "blind_n": 8,
    "eval_limit": 4,
}


def evaluations(pawl: Instance) -> list[Any]:
    with pawl.store.read() as session:
        return list(session.exec(select(Evaluation)))


def test_a_run_without_docker_waits_and_goes_on_when_it_is_back(
    docker_engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with instance(tmp_path) as pawl:
        pawl.start("c", preset="code", base_model="sim/student", rounds=1, limits=SMALL)
        with monkeypatch.context() as gone:
            gone.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
            pawl.engine.start()
            while (found := pawl.service.run_detail(OWNER, "c")).state != "paused":
                assert found.state in ("starting", "running")
                pawl.engine.tick()
            assert "no Docker engine answers" in str(found.reason)
            assert evaluations(pawl) == []
        pawl.service.control(OWNER, "c", "resume")
        assert pawl.wait("c", 120).state == "finished"
        scored = evaluations(pawl)
        assert len(scored) >= 4 and all(one.scored == one.planned for one in scored)
        assert all(one.protocol["isolation"]["image"] == docker_engine.image for one in scored)
