"""The warm pool judges many times faster than a container or an exec a case, and the same."""

import os
from pathlib import Path
from typing import Any

import pytest

from engine.sandbox.docker_engine import DockerEngine
from tests.bench.test_bench import bench

LONG = os.environ.get("PAWL_LONG") == "1"


@pytest.mark.timeout(900)
def test_the_pool_outruns_a_container_and_an_exec_a_case(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    def in_time(found: dict[str, Any]) -> bool:
        container, exec_ = found["ratios"]
        # With few pairs on a busy machine there is room for chance.
        outruns = (container["low"] if LONG else container["ratio"]) >= (40 if LONG else 20)
        outruns = outruns and (exec_["low"] if LONG else exec_["ratio"]) >= (10 if LONG else 5)
        return bool(outruns and found["checks_seconds"] <= 60)

    rough = [] if LONG else ["--quick", "--pairs", "2"]
    found = bench(tmp_path, "sandbox", *rough, seconds=900 if LONG else 280, in_time=in_time)
    assert in_time(found), found
    assert found["hard_cases"] == 14
