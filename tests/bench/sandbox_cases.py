"""The cases that the sandbox benchmark judges: small functions, right, wrong and failing."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from engine.sandbox.judge import judge
from engine.sandbox.pool import Case, Outcome
from engine.types import Verdict

SECONDS = 30.0  # for what ends by itself, on a machine that is busy with other things
HARD_SECONDS = 1.5  # for what may have no end

FUNCTIONS = (  # source, and how its answer to (a, b) is worked out here
    ("def f(a, b):\n    return a + b", lambda a, b: a + b),
    ("def f(a, b):\n    return sorted(str(a * b))", lambda a, b: sorted(str(a * b))),
    (
        "def f(a, b):\n    n = 0\n    for i in range(a):\n        n += i % b\n    return n",
        lambda a, b: sum(i % b for i in range(a)),
    ),
    (
        "import math\ndef f(a, b):\n    return {'gcd': math.gcd(a, b), 'max': max(a, b)}",
        lambda a, b: {"gcd": _gcd(a, b), "max": max(a, b)},
    ),
    (
        "from collections import Counter\ndef f(a, b):\n    return Counter(str(a))['1'] == b",
        lambda a, b: str(a).count("1") == b,
    ),
)
FAILING = (
    "def f(a, b):\n    return a - b - 1",
    "def f(a, b):\n    return a / 0",
    "import os\ndef f(a, b):\n    os._exit(0)",
    "def f(a, b) return a",
    "def g(a, b):\n    return a + b",
    "def f(a, b):\n    return str(a + b)",
    "import sys\ndef f(a, b):\n    sys.exit(3)",
)
HARD = (  # take a container or its time along
    "import time\ndef f(a, b):\n    time.sleep(99)",
    "def f(a, b):\n    while True:\n        pass",
    "def f(a, b):\n    return 'x' * (50 << 20)",
    "import ctypes\ndef f(a, b):\n    ctypes.string_at(0)",
    "def f(a, b):\n    x = []\n    while True:\n        x.append('x' * (1 << 20))",
    "import os, signal\ndef f(a, b):\n    os.kill(os.getpid(), signal.SIGKILL)",
    "def f(a, b):\n    return f(a, b)",
)


@dataclass(kw_only=True, slots=True, frozen=True)
class Asked:
    """A case, and what its function should return for each input."""

    case: Case
    expected: tuple[Any, ...]

    def verdict(self, outcome: Outcome) -> Verdict:
        """What the outcome is worth."""
        return judge(outcome, self.expected)


def small(count: int) -> list[Asked]:
    """Cases that are over in milliseconds; one in four is wrong or fails."""
    random, cases = Random(11), []
    for number in range(count):
        source, worked = FUNCTIONS[number % len(FUNCTIONS)]
        code = FAILING[number // 4 % len(FAILING)] if number % 4 == 3 else source
        cases.append(_asked(code, worked, _inputs(random)))
    return cases


def hard() -> list[Asked]:
    """Cases that crash, never end or take too much, with an honest one after each."""
    random, (honest, worked) = Random(12), FUNCTIONS[0]
    return [
        _asked(code, worked, _inputs(random), seconds=seconds)
        for failing in HARD
        for code, seconds in ((failing, HARD_SECONDS), (honest, SECONDS))
    ]


def checks(count: int) -> list[Asked]:
    """Cases in the manner of HumanEval: a function, and asserts that run beside it."""
    random, cases = Random(13), []
    for number in range(count):
        source, worked = FUNCTIONS[number % len(FUNCTIONS)]
        asserts = [f"assert f{pair!r} == {worked(*pair)!r}" for pair in _inputs(random, 8)]
        case = Case(code=source, check="\n".join(asserts), seconds=SECONDS)
        cases.append(Asked(case=case, expected=(True,)))
    return cases


def _asked(code: str, worked: Any, inputs: Sequence[Any], seconds: float = SECONDS) -> Asked:
    case = Case(code=code, entry="f", inputs=tuple(inputs), seconds=seconds)
    return Asked(case=case, expected=tuple(worked(*pair) for pair in inputs))


def _inputs(random: Random, count: int = 4) -> list[tuple[int, int]]:
    return [(random.randrange(1, 400), random.randrange(1, 40)) for _ in range(count)]


def _gcd(a: int, b: int) -> int:
    return a if b == 0 else _gcd(b, a % b)
