"""A Docker engine that cannot be used is told apart by its own words, and no score comes of it."""

import contextlib
import gc
import os
import signal
import socket
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.sandbox import reaper
from engine.sandbox.docker_engine import DockerEngine, SandboxLost, SandboxUnavailable, connect
from engine.sandbox.judge import judge
from engine.sandbox.one_shot import run_once
from engine.sandbox.owner import mark
from engine.sandbox.pool import WarmPool
from engine.sandbox.streams import Streams, TooLate
from tests.sandbox.conftest import PATIENCE, call
from tests.sandbox.door import Door
from tests.sandbox.test_leavings import LEAVINGS
from tests.sandbox.test_reaper import GONE


def refusal(monkeypatch: pytest.MonkeyPatch, host: str) -> str:
    """What is said of the engine at an address; a socket left open is a failure."""
    monkeypatch.setenv("DOCKER_HOST", host)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SandboxUnavailable) as refused:
            connect()
        said = str(refused.value)
        del refused
        gc.collect()
    return said


def test_no_engine_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = refusal(monkeypatch, f"unix://{tmp_path}/docker.sock")
    assert "No such file" in said and "install Docker" in said
    assert f"unset DOCKER_HOST, which says unix://{tmp_path}/docker.sock" in said


def test_an_engine_that_is_down_left_its_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "docker.sock"))
    said = refusal(monkeypatch, f"unix://{tmp_path}/docker.sock")
    assert "refused" in said and "start it" in said


def test_an_engine_of_others_may_not_be_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "docker.sock"))
        (tmp_path / "docker.sock").chmod(0)
        own = os.geteuid()
        tmp_path.chmod(0o711)
        import docker  # noqa: F401  while this user may still read it

        try:
            os.seteuid(65534 if own == 0 else own)  # root may ask anybody
            said = refusal(monkeypatch, f"unix://{tmp_path}/docker.sock")
        finally:
            os.seteuid(own)
    assert "Permission denied" in said and "group docker" in said


def test_a_runtime_that_is_configured_is_used_or_refused_never_replaced(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAWL_SANDBOX_RUNTIME", "no-such-runtime")
    with pytest.raises(SandboxUnavailable, match=r"no runtime no-such-runtime \(it has .*runc"):
        DockerEngine("test")
    monkeypatch.setenv("PAWL_SANDBOX_RUNTIME", "runc")
    engine = DockerEngine("test")
    assert engine.receipt("warm").runtime == "runc"
    assert engine.receipt("warm").flags != docker_engine.receipt("warm").flags
    engine.close()


def test_an_image_that_is_missing_is_named_with_the_command_that_makes_it(
    docker_engine: DockerEngine,
) -> None:
    with pytest.raises(
        SandboxUnavailable, match=r"pawl-none:1.*No such image.*run.py sandbox build"
    ):
        DockerEngine("test", image="pawl-none:1")


def test_an_image_removed_in_the_middle_of_a_run_gives_no_score(
    docker_engine: DockerEngine,
) -> None:
    client = docker_engine._client
    client.api.import_image_from_data(b"\0" * 1024, repository="pawl-gone", tag="1")
    engine = DockerEngine("test-gone", image="pawl-gone:1")
    client.images.remove("pawl-gone:1")
    pool = WarmPool(engine, 1)
    outcome = pool.run(call("def f():\n    return 1"))
    verdict = judge(outcome, [1])
    assert verdict.score is None and verdict.reason == "sandbox_lost"
    assert "No such image" in str(outcome.why)
    pool.close()
    engine.close()


def test_containers_that_are_gone_while_the_pool_is_idle_cost_no_verdict(
    docker_engine: DockerEngine,
) -> None:
    engine = DockerEngine("test-idle")
    pool = WarmPool(engine, 3)
    pool.run_all([call("import time\ndef f():\n    time.sleep(1)")] * 3)
    engine.remove_all()
    for _ in range(3):
        assert judge(pool.run(call("def f():\n    return 1")), [1]).score == 1.0
    pool.close()
    engine.close()


def test_an_engine_that_notices_an_end_late_does_not_turn_a_fault_of_the_code_into_ours(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DockerEngine("test-late")
    known, seen = engine.state, set()

    def late(container: str) -> dict[str, Any]:
        if container in seen:
            return known(container)
        seen.add(container)
        return {"Running": True, "ExitCode": 0, "OOMKilled": False}

    monkeypatch.setattr(engine, "state", late)
    pool = WarmPool(engine, 1)
    outcome = pool.run(
        call(LEAVINGS["shared memory"].replace("range(5)", "range(80)").replace("40 <<", "4 <<"))
    )
    assert outcome.status == "memory" and judge(outcome, [1]).score == 0.0
    pool.close()
    engine.close()


def test_a_container_that_is_held_still_from_outside_costs_no_verdict(
    docker_engine: DockerEngine,
) -> None:
    engine = DockerEngine("test-held")
    pool = WarmPool(engine, 1)
    pool.run(call("def f():\n    return 1"))
    with ThreadPoolExecutor(1) as threads:
        case = call("import time\ndef f():\n    time.sleep(2)\n    return 1", seconds=8)
        held = threads.submit(pool.run, case)
        time.sleep(0.3)
        for one in engine._client.api.containers(filters={"label": "instance=test-held"}):
            engine._client.api.pause(one["Id"])
        assert judge(held.result(90), [1]).score == 1.0
    pool.close()
    engine.close()


def test_a_machine_that_stands_still_in_the_middle_of_a_case_makes_no_answer_too_slow(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sandbox.pool.GRACE", 60.0)
    engine = DockerEngine("test-stalled")
    pool = WarmPool(engine, 1)
    pool.run(call("def f():\n    return 1"))
    (container,) = engine._client.api.containers(filters={"label": "instance=test-stalled"})
    with ThreadPoolExecutor(1) as threads:
        case = call("import time\ndef f():\n    time.sleep(2)\n    return 1", seconds=3)
        answer = threads.submit(pool.run, case)
        time.sleep(0.3)
        inside = [int(row[1]) for row in engine._client.api.top(container["Id"])["Processes"]]
        try:
            send(inside, signal.SIGSTOP)
            time.sleep(4)
        finally:
            send(inside, signal.SIGCONT)
        outcome = answer.result(60)
    pool.close()
    engine.close()
    assert judge(outcome, [1]).score == 1.0 and outcome.seconds > 4, outcome


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def test_a_host_that_stands_still_until_a_case_is_long_over_asks_again(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its own clock wakes late it cannot know whether the case had its time."""
    engine = DockerEngine("test-late")
    pool = WarmPool(engine, 1)
    pool.run(call("def f():\n    return 1"))
    receive, late = Streams.receive, [True]

    def wake_late(streams: Streams, seconds: float) -> dict[str, Any]:
        if late and late.pop():
            time.sleep(seconds + 1)
            raise TooLate
        return receive(streams, seconds)

    monkeypatch.setattr(Streams, "receive", wake_late)
    outcome = pool.run(call("def f():\n    return 1", seconds=0.5))
    pool.close()
    engine.close()
    assert judge(outcome, [1]).score == 1.0, outcome


def test_an_engine_that_dies_in_the_middle_of_a_case_gives_no_score_and_serves_when_it_is_back(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    door = Door(tmp_path / "docker.sock")
    monkeypatch.setenv("DOCKER_HOST", door.host)
    door.open()
    engine = DockerEngine(f"{mark(tmp_path)}-{GONE}-1")
    pool = WarmPool(engine, 1)
    assert pool.run(call("def f():\n    return 1")).status == "done"
    with ThreadPoolExecutor(2) as threads:
        case = call("import time\ndef f():\n    time.sleep(60)", seconds=90)
        warm = threads.submit(pool.run, case)
        once = threads.submit(run_once, engine, ["sleep", "60"], b"", 90.0)
        mine = {"label": f"instance={mark(tmp_path)}-{GONE}-1", "status": "running"}
        deadline = time.monotonic() + PATIENCE
        while len(docker_engine._client.api.containers(filters=mine)) < 2:
            assert time.monotonic() < deadline, "both are up"
            time.sleep(0.1)
        time.sleep(1)  # the case is with its container by now
        door.shut()
        outcome, loss = warm.result(60), once.exception(60)
    verdict = judge(outcome, [None])
    assert verdict.score is None and verdict.reason == "sandbox_lost"
    assert "Docker engine failed" in str(outcome.why)
    assert isinstance(loss, SandboxLost)
    door.open()
    assert reaper.sweep(tmp_path) == 2, "what was up when it died"
    assert judge(pool.run(call("def f():\n    return 1")), [1]).score == 1.0
    pool.close()
    engine.close()
    door.shut()
