"""What a case leaves behind in a container is met by no case after it."""

from collections.abc import Iterator

import pytest

from engine.sandbox.docker_engine import DockerEngine
from engine.sandbox.judge import judge, read_line
from engine.sandbox.pool import WarmPool
from tests.sandbox.conftest import run

LEAVINGS = {
    "a folder in the next one's place": (
        "import os\ndef f():\n    os.mkdir(f'/scratch/{os.getuid() + 1}')\n    return 1"
    ),
    "a file beside its own folder": (
        "def f():\n    open('/scratch/note', 'w').write('x')\n    return 1"
    ),
    "a full disk": (
        "def f():\n    try:\n        for n in range(99):\n"
        "            open(f'/scratch/{n}', 'wb').write(b'x' * 900_000)\n"
        "    except OSError:\n        return 1"
    ),
    "a folder that nobody may enter": (
        "import os\ndef f():\n    os.makedirs('a/b')\n    os.chmod('a', 0)\n    return 1"
    ),
    "shared memory": """
import ctypes
def f():
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    for _ in range(5):
        place = libc.shmat(libc.shmget(0, 40 << 20, 0o1666), None, 0)
        ctypes.memset(place, 1, 40 << 20)
        libc.shmdt(ctypes.c_void_p(place))
    return 1
""",
}
HONEST = """
import os
def f():
    memory = bytearray(60 << 20)
    memory[::4096] = b'x' * len(memory[::4096])
    with open('own', 'wb') as file:
        file.write(b'x' * 500_000)
    with open('/proc/sysvipc/shm') as file:
        return [os.listdir('/scratch') == [str(os.getuid())], len(file.readlines())]
"""


@pytest.fixture
def one(docker_engine: DockerEngine) -> Iterator[WarmPool]:
    """A single container, so that cases follow each other in it."""
    pool = WarmPool(docker_engine, 1)
    yield pool
    pool.close()


@pytest.mark.parametrize("name", LEAVINGS)
def test_what_a_case_leaves_is_not_met_by_the_next(name: str, one: WarmPool) -> None:
    assert judge(run(one, LEAVINGS[name]), [1]).score == 1.0
    assert judge(run(one, HONEST), [[True, 1]]).score == 1.0


def test_a_case_that_tidies_up_does_not_cost_a_container(one: WarmPool) -> None:
    code = "import os\ndef f():\n    open('a', 'w').close()\n    os.mkdir('b')\n    return os.getppid()"
    assert run(one, code).left == run(one, code).left == 0


def test_a_message_queue_cannot_be_made(one: WarmPool) -> None:
    code = """
import ctypes
def f():
    return ctypes.CDLL('librt.so.1').mq_open(b'/kept', 0o102, 0o666, None)
"""
    assert read_line(run(one, code).output) == {"returned": -1}
