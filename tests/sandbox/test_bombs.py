"""Code that takes all it can get: named for what it did, ended in time, the next case unharmed."""

import os
import time

import pytest

from engine.sandbox.judge import judge
from engine.sandbox.one_shot import run_once
from tests.sandbox.conftest import PATIENCE, run
from tests.stopwatch import Stopwatch, seconds_until

SECONDS = 2.0  # for what has no end
STALLED = 30.0  # for what a bomb may hold up the whole machine
BOMBS: dict[str, tuple[str, set[str]]] = {
    "fork": (
        (
            "import os\ndef f():\n    while True:\n        try:\n            os.fork()\n"
            "        except OSError:\n            pass"
        ),
        {"time"},
    ),
    "threads": (
        (
            "import threading, time\ndef f():\n    while True:\n"
            "        threading.Thread(target=time.sleep, args=(99,)).start()"
        ),
        {"raised", "time"},
    ),
    "memory": (
        "def f():\n    a = []\n    while True:\n        a.append('x' * (1 << 20))",
        {"raised"},
    ),
    "memory of many": (
        (
            "import os\ndef f():\n    for _ in range(12):\n        if os.fork() == 0:\n"
            "            a = bytearray(200 << 20)\n            while True:\n                pass\n"
            "    while True:\n        pass"
        ),
        {"time", "memory"},
    ),
    "disk": (
        (
            "import os\ndef f():\n    n = 0\n    while True:\n        n += 1\n"
            "        open(str(n), 'wb').write(b'x' * 900_000)"
        ),
        {"raised"},
    ),
    "one large file": ("def f():\n    open('x', 'wb').write(b'x' * (64 << 20))", {"raised"}),
    "output": ("def f():\n    return 'x' * (50 << 20)", {"output"}),
    "output to anything": (
        (
            "import os\ndef f():\n    while True:\n        for n in (1, 2, 3):\n"
            "            os.write(n, b'x' * 65536)"
        ),
        {"output"},
    ),
    "sleep": ("import time\ndef f():\n    time.sleep(999)", {"time"}),
    "spin": ("def f():\n    while True:\n        pass", {"time"}),
    "deaf to TERM": (
        (
            "import signal, time\ndef f():\n    for n in range(1, 32):\n        try:\n"
            "            signal.signal(n, signal.SIG_IGN)\n        except OSError:\n            pass\n"
            "    time.sleep(999)"
        ),
        {"time"},
    ),
    "a grandchild that stays": (
        (
            "import os, time\ndef f():\n    if os.fork() == 0:\n        os.setsid()\n"
            "        if os.fork() == 0:\n            time.sleep(999)\n        os._exit(0)\n    return 1"
        ),
        {"done"},
    ),
    "a grandchild that writes": (
        (
            "import os\ndef f():\n    if os.fork() == 0:\n        os.setsid()\n        while True:\n"
            "            os.write(3, b'x' * 65536)\n    return 1"
        ),
        {"output"},
    ),
    "open files": (
        "def f():\n    a = []\n    while True:\n        a.append(open('/dev/null'))",
        {"raised"},
    ),
    "deep JSON": (
        "def f():\n    a = []\n    for _ in range(100_000):\n        a = [a]\n    return a",
        {"done", "raised"},
    ),
    "a deep line of its own": (
        "import os\ndef f():\n    os.write(3, b'[' * 900_000 + b'\\n')",
        {"done"},
    ),
    "recursion": ("def f():\n    return f()", {"raised"}),
    "a crash": ("import ctypes\ndef f():\n    ctypes.string_at(0)", {"signal 11"}),
    "a number without end": ("def f():\n    return 10 ** (10 ** 8)", {"time", "raised"}),
}


def host_memory() -> int:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def limit(allowed: set[str]) -> float:
    """Seconds for a bomb: few for one that only its time ends."""
    return SECONDS if "time" in allowed else PATIENCE


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_named_and_over_in_time(name, pool):
    code, allowed = BOMBS[name]
    before, watch, began = host_memory(), Stopwatch(), time.monotonic()
    outcome = run(pool, code, seconds=limit(allowed))
    assert outcome.status in allowed, outcome
    assert watch.stop() < SECONDS + 5
    assert time.monotonic() - began < SECONDS + 5 + STALLED
    assert host_memory() - before < 50 << 20
    assert judge(outcome, ["never this"]).score == 0.0
    after = run(pool, "def f(x):\n    return x + 1", (1,))
    assert judge(after, [2]).score == 1.0, "the next case is unharmed"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (
            "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
            "time",
        ),
        ("a = []\nwhile True:\n    a.append('x' * (1 << 20))", "memory"),
        ("while True:\n    print('x' * 1000)", "output"),
        ("import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(99)", "time"),
        ("open('/scratch/x', 'wb').write(b'x' * (17 << 20))", "failed"),
    ],
)
def test_a_bomb_alone_in_a_container_is_gone_with_it(docker_engine, command, status):
    watch, began = Stopwatch(), time.monotonic()
    seconds = limit({status})
    ended = run_once(docker_engine, ["python3", "-c", command], b"", seconds, run="bomb")
    assert ended.status == status, ended
    assert watch.stop() < SECONDS + 5
    assert time.monotonic() - began < SECONDS + 5 + STALLED
    assert len(ended.output) <= 1 << 20
    left = docker_engine._client.api.containers(all=True, filters={"label": "run=bomb"})
    assert left == []


def test_no_process_of_a_case_is_left_on_the_machine(pool):
    run(pool, BOMBS["fork"][0], seconds=1.0)
    run(pool, BOMBS["a grandchild that stays"][0])
    assert seconds_until(lambda: not of_cases()) < 10


def of_cases() -> list[str]:
    """Processes of this machine that run under the user id of a case."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid >= 100_000:
                found.append(name)
        except OSError:
            continue
    return found
