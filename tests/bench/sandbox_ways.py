"""The same case judged in three ways: a warm pool, a container of its own, an exec of its own.

The containers are locked up in the same manner; the two plain ways use the docker package as its
manual shows.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from engine.sandbox.docker_engine import IMAGE, DockerEngine, SandboxUnavailable, connect
from engine.sandbox.flags import NOBODY, ONE_SHOT
from engine.sandbox.pool import Case, Outcome, WarmPool
from tests.bench.harness import BenchFailed
from tests.bench.sandbox_cases import Asked

Way = Callable[[Case], Outcome]  # answers one case, from any thread

# What runs inside, given the case as its argument.
DRIVER = """
import json, sys
case = json.loads(sys.argv[1])
space = {"__name__": "solution"}
exec(compile(case["code"], "solution.py", "exec"), space)
for arguments in case["inputs"]:
    print(json.dumps({"returned": space[case["entry"]](*arguments)}), flush=True)
"""
FLAGS = {**ONE_SHOT, "log_config": {"Type": "json-file", "Config": {"max-size": "2m"}}}
USER = f"{NOBODY}:{NOBODY}"


@contextmanager
def warm_pool(size: int) -> Iterator[Way]:
    """Our pool, with every container up and having answered once."""
    engine = DockerEngine(f"bench-{uuid.uuid4().hex[:8]}")
    pool = WarmPool(engine, size)
    pool.run_all([Case(code="import time\ndef f():\n    time.sleep(0.3)", entry="f")] * size)
    try:
        yield pool.run
    finally:
        pool.close()
        engine.close()


@contextmanager
def own_container(_size: int) -> Iterator[Way]:
    """A container made, started, waited for, read and removed for every case."""
    client = connect()

    def answer(case: Case) -> Outcome:
        container = client.containers.create(IMAGE, in_time(case), user=USER, **FLAGS)
        try:
            container.start()
            code = container.wait(timeout=60)["StatusCode"]
            output = container.logs(stdout=True, stderr=False)
            return outcome(code, output)
        finally:
            container.remove(force=True)

    yield answer
    client.close()


@contextmanager
def own_exec(size: int) -> Iterator[Way]:
    """A process of its own for every case, in containers that stay up."""
    client = connect()
    command = ["sleep", "infinity"]
    made = [
        client.containers.run(IMAGE, command, user=USER, detach=True, **FLAGS) for _ in range(size)
    ]
    free = list(made)

    def answer(case: Case) -> Outcome:
        container = free.pop()
        try:
            code, output = run_in(container, case)
            if code == 0 and output.count(b"\n") < len(case.inputs):
                # Under load an exec's stream may close before its last output: asked once more.
                code, output = run_in(container, case)
            return outcome(code, output)
        finally:
            free.append(container)

    try:
        yield answer
    finally:
        for container in made:
            container.remove(force=True)
        client.close()


def run_in(container: Any, case: Case) -> tuple[int, bytes]:
    """Exit code and output of a case in a container that is up."""
    done = container.exec_run(in_time(case), user=USER, demux=True)
    return done.exit_code, done.output[0] or b""


WAYS: dict[str, Callable[[int], AbstractContextManager[Way]]] = {
    "pool": warm_pool,
    "container": own_container,
    "exec": own_exec,
}


def judge_all(name: str, asked: Sequence[Asked], size: int) -> tuple[float, list[Any]]:
    """Seconds for all cases, `size` at once, and each one's score and reason."""
    try:
        with WAYS[name](size) as answer, ThreadPoolExecutor(size) as threads:
            began = time.perf_counter()
            verdicts = list(threads.map(lambda one: one.verdict(answer(one.case)), asked))
            seconds = time.perf_counter() - began
    except SandboxUnavailable as missing:
        raise BenchFailed(f"There is nothing to measure: {missing}") from None
    return seconds, [[verdict.score, verdict.reason] for verdict in verdicts]


def in_time(case: Case) -> list[str]:
    """The command for a case, ended by the container's own clock."""
    given = json.dumps({"code": case.code, "entry": case.entry, "inputs": case.inputs})
    limit = ["timeout", "-s", "KILL", str(case.seconds)]
    return [*limit, "python3", "-I", "-S", "-c", DRIVER, given]


def outcome(code: int, output: bytes) -> Outcome:
    """What an exit code and an output say."""
    status = {0: "done", 137: "time"}.get(code, "raised" if code < 128 else f"signal {code - 128}")
    return Outcome(status=status, output=output.decode(errors="replace"))
