"""Attacks on the reward: none of them earns anything, an honest answer does."""

import pytest

from engine.sandbox.judge import judge
from engine.sandbox.pool import Outcome
from tests.sandbox.conftest import run

INPUTS = ((2, 3), (10, -4), (0, 0))
EXPECTED = [5, 6, 0]
HONEST = "def f(a, b):\n    return a + b"

CHEATS = {
    "says it is right": "def f(a, b):\n    return True",
    "an object that equals everything": (
        "class Any:\n    def __eq__(self, other):\n        return True\n"
        "    __hash__ = None\ndef f(a, b):\n    return Any()"
    ),
    "a number that equals everything": (
        "class N(int):\n    def __eq__(self, other):\n        return True\n"
        "    __hash__ = int.__hash__\ndef f(a, b):\n    return N(99)"
    ),
    "a text that equals everything": (
        "class T(str):\n    def __eq__(self, other):\n        return True\n"
        "    __hash__ = str.__hash__\ndef f(a, b):\n    return T('5')"
    ),
    "leaves with success": "import os\ndef f(a, b):\n    os._exit(0)",
    "leaves while it is defined": "import sys\nsys.exit(0)",
    "leaves by an exception of its own": "class Done(BaseException): pass\ndef f(a, b):\n    raise Done",
    "prints a verdict": "def f(a, b):\n    print('{\"score\": 1.0}')\n    return None",
    "prints the frame": (
        'import os\ndef f(a, b):\n    os.write(1, b\'\\x00\\x00\\x00\\x20{"status": "done"}\')\n'
        "    return None"
    ),
    "writes records of its own": (
        "import os\ndef f(a, b):\n    os.write(3, b'{\"returned\": true}\\n' * 3)\n    os._exit(0)"
    ),
    "writes one record too many": (
        "import os\ndef f(a, b):\n    os.write(3, b'{\"returned\": 5}\\n')\n    return a + b"
    ),
    "writes a record with two values": (
        "import os\ndef f(a, b):\n"
        '    os.write(3, b\'{"returned": 1, "returned": 5}\\n\')\n    os._exit(0)'
    ),
    "changes json": (
        "import json\njson.dumps = lambda *a, **k: '{\"returned\": 5}'\ndef f(a, b):\n    return 1"
    ),
    "changes equality of the built-ins": (
        "import builtins\nbuiltins.all = lambda *a: True\nbuiltins.isinstance = lambda *a: True\n"
        "def f(a, b):\n    return 1"
    ),
    "changes what runs it": (
        "import sys\nframe = sys._getframe(1)\nframe.f_globals['tell'] = lambda *a, **k: None\n"
        "def f(a, b):\n    return 1"
    ),
    "empties the inputs": (
        "import sys\nframe = sys._getframe(1)\nframe.f_locals['case']['inputs'] = []\n"
        "def f(a, b):\n    return 1"
    ),
    "looks for the expected values": (
        "import gc\nfound = [o for o in gc.get_objects() if o == [5, 6, 0]]\n"
        "def f(a, b):\n    return found[0][0] if found else None"
    ),
    "reads the tests": (
        "import os\ndef f(a, b):\n    for folder, _, files in os.walk('/scratch'):\n"
        "        for name in files:\n            return open(os.path.join(folder, name)).read()"
    ),
    "writes a reward file": (
        "def f(a, b):\n    for name in ('reward.txt', 'reward.json', 'score'):\n"
        "        open(name, 'w').write('1.0')\n    return None"
    ),
    "returns what is no number": "def f(a, b):\n    return float('nan')",
    "returns infinity": "def f(a, b):\n    return float('inf')",
    "returns almost the number": "def f(a, b):\n    return float(a + b)",
    "returns a text of it": "def f(a, b):\n    return str(a + b)",
    "returns all numbers": "def f(a, b):\n    return list(range(-100, 100))",
    "knows the first answer": "def f(a, b):\n    return 5",
    "right, then kills its parent": (
        "import os, signal\ndef f(a, b):\n    os.kill(os.getppid(), signal.SIGKILL)\n    return 5"
    ),
    "sends what grows on the way out": (
        "import os\ndef f(a, b):\n    data = b'\\xff\\x00' * 450_000\n    while data:\n"
        "        data = data[os.write(3, data) :]"
    ),
    "has a name that is no text": (
        "import ctypes\ndef f(a, b):\n    ctypes.CDLL(None).prctl(15, b'\\xff\\xfe', 0, 0, 0)"
    ),
    "a handler that answers later": (
        "import atexit, os\natexit.register(lambda: os.write(3, b'{\"returned\": 5}\\n'))\n"
        "def f(a, b):\n    return None"
    ),
}


def test_there_are_attacks_enough():
    assert len(CHEATS) >= 20


@pytest.mark.parametrize("name", CHEATS)
def test_an_attack_earns_nothing(name, pool):
    verdict = judge(run(pool, CHEATS[name], *INPUTS), EXPECTED)
    assert verdict.score == 0.0, verdict


@pytest.mark.parametrize(
    "code",
    [
        HONEST,
        "def f(a, b):\n    print('thinking')\n    return a + b",
        "import math\ndef add(*n):\n    return math.fsum(n)\ndef f(a, b):\n    return int(add(a, b))",
        "f = lambda a, b: a - -b",
        "class Adder:\n    def __call__(self, a, b):\n        return a + b\nf = Adder()",
    ],
)
def test_an_honest_answer_earns_all(code, pool):
    assert judge(run(pool, code, *INPUTS), EXPECTED).score == 1.0


def test_values_are_compared_by_type_all_the_way_down(pool):
    code = "def f(x):\n    return x"
    given = {"a": [1, 1.5, True, None, "x"], "b": {"c": []}}
    assert judge(run(pool, code, (given,)), [given]).score == 1.0
    for other in (
        {"a": [1, 1.5, 1, None, "x"], "b": {"c": []}},
        {"a": [1.0, 1.5, True, None, "x"], "b": {"c": []}},
        {"a": [1, 1.5, True, None, "x"], "b": {"c": {}}},
        {"a": [1, 1.5, True, None, "x"]},
    ):
        assert judge(run(pool, code, (given,)), [other]).score == 0.0


def test_what_we_lost_is_no_verdict():
    verdict = judge(Outcome(status="lost", why="the Docker engine failed"), [1])
    assert verdict.score is None and verdict.reason == "sandbox_lost"
