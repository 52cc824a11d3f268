"""Killed at each named point and started again, a run ends as if nothing had happened."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from data.crash import POINTS
from engine.models.gateway import AT_ONCE

LIVE = (
    "after_intent#4",
    "after_execute#6",
    "after_result#3",
    "after_result#11",
    "after_answers#9",
    "after_move#1",
)
DRY = ("after_reserve#30", "after_send#75", "after_settle#120", "after_execute#5")


def serve(home: Path, kind: str, crash_at: str | None = None) -> subprocess.CompletedProcess[str]:
    """One life of the server on `home`, dying at `crash_at` when it is given."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("CRASH_AT", None)
    if crash_at:
        environment["CRASH_AT"] = crash_at
    command = [sys.executable, "-m", "tests.crash_child", str(home), "r-1", kind]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> dict[str, dict]:
    """The dumps of uninterrupted runs."""
    kinds = ("live", "dry")
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda k: serve(tmp_path_factory.mktemp(k), k), kinds))
    dumps = {}
    for kind, one in zip(kinds, done, strict=True):
        assert one.returncode == 0, one.stderr
        dumps[kind] = json.loads(one.stdout)
        assert dumps[kind]["spend"].pop("uncertain_calls") == 0
    return dumps


@pytest.mark.parametrize(("kind", "point"), [("live", p) for p in LIVE] + [("dry", p) for p in DRY])
def test_a_run_killed_at_a_point_ends_the_same(tmp_path, golden, kind, point):
    died = serve(tmp_path, kind, point)
    assert died.returncode == -9, f"{point} never came: {died.stderr}"
    again = serve(tmp_path, kind)
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert found["spend"].pop("uncertain_calls") <= AT_ONCE  # those that were in flight
    assert found == golden[kind]


def test_every_point_is_crashed_at():
    assert {point.split("#")[0] for point in LIVE + DRY} == set(POINTS)
