"""Named crash points: `CRASH_AT=name#3` kills this process with SIGKILL at the third pass of `name`.

They are off unless armed by that environment variable, which tests alone set.
"""

import os
import signal
from collections import Counter

POINTS: dict[str, str] = {
    "after_intent": "a step's intent is recorded, nothing done",
    "after_execute": "a step's work is done, its result not recorded",
    "after_result": "a step's result is recorded, the next one not begun",
    "after_reserve": "money is reserved, nothing sent",
    "after_send": "a paid call was answered, nothing settled",
    "after_settle": "a paid call is settled, its step not recorded",
    "after_answers": "a batch of answers is on disk, the phase goes on",
    "after_move": "a run's state was moved",
}

_passed: Counter[str] = Counter()


def point(name: str) -> None:
    """Pass a named point; dies here when armed for this pass of it."""
    armed = os.environ.get("CRASH_AT")
    if armed is None:
        return
    assert name in POINTS, f"crash point {name} is not listed"
    _passed[name] += 1
    if armed == f"{name}#{_passed[name]}":
        os.kill(os.getpid(), signal.SIGKILL)
