"""Lives of a process that makes paid calls, for tests that kill it: each a fork of this one.

`python -m tests.gateway_lives` reads a line of JSON for each life and answers in two: the life's
process id once it begins, and how it ended with what came of its calls.
"""

import json
import os
import sys
import tempfile
import threading
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import openai.resources.chat  # noqa: F401

from data import crash
from data.store import Store
from engine.errors import CapReached, GatewayFailed, PriceBoundViolated
from engine.models import calls
from engine.models.calls import Slot
from engine.models.gateway import Gateway
from engine.types import Ask

ACCOUNTS = ["run:a", "project:p"]
WORDS = "what is {number} + {number}?"


def life(
    database: str,
    numbers: list[int],
    crash_at: str,
    at_once: int,
    seconds: float,
    words: int,
    long_every: int,
) -> dict[str, int]:
    """Make the calls of some numbers, many at once; how many ended how.

    Every so many of them have that many words more.
    """
    crash.arm(crash_at)
    store = Store(Path(database))
    store.write(lambda session: calls.settle_leftovers(session))
    gateway = Gateway(store, 0.0, retry_seconds=0.01, read_seconds=seconds)

    def one(number: int) -> str:
        slot = Slot(
            project_id="p", accounts=ACCOUNTS, role="teacher", run="a", round=1, step="collect"
        )
        text = WORDS.format(number=number) + " x" * (words if number % long_every == 0 else 0)
        ask = Ask(key=str(number), messages=[{"role": "user", "content": text}], max_tokens=64)
        try:
            gateway.call(slot, "m", ask)
            return "answered"
        except PriceBoundViolated:
            return "violated"
        except CapReached as error:
            return "requests" if "request cap" in str(error) else "money"
        except GatewayFailed:
            return "failed"

    with ThreadPoolExecutor(at_once) as pool:
        found = Counter(pool.map(one, numbers))
    store.close()
    return dict(found)


def serve() -> None:
    """Fork a life for every line of standard input and tell how it ended."""
    for line in sys.stdin:
        assert threading.active_count() == 1, "a process with threads must not fork"
        with tempfile.TemporaryFile() as said:
            pid = os.fork()
            if pid == 0:
                _be_life(json.loads(line), said.fileno())
            print(json.dumps({"pid": pid}), flush=True)
            _, status = os.waitpid(pid, 0)
            said.seek(0)
            text = said.read()
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"code": code, "ended": json.loads(text) if text else {}}), flush=True)


def _be_life(given: dict[str, Any], out: int) -> None:
    code = 1
    try:
        os.write(out, json.dumps(life(**given)).encode())
        code = 0
    except BaseException:  # noqa: BLE001  told by the exit code
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
