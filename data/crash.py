"""Named crash points: `CRASH_AT=name#3` kills this process with SIGKILL at the third pass of `name`.

`CRASH_AT=first#2,second#1` kills at the first pass of `second` after the second one of `first`.
They are off unless armed, by that environment variable or by `arm`, which tests alone do. A point
whose name begins with `in_` is inside a write transaction: what it stands behind is undone.
"""

import os
import signal
import threading
from collections import Counter

POINTS: dict[str, str] = {
    "in_door_run": "a run's row and first job are inserted, not committed",
    "after_door_run": "a run's row is committed, nobody was told",
    "before_commit": "changes are made, their commit is not begun",
    "after_commit": "changes are committed, nobody was told",
    "in_event": "events are inserted, not committed",
    "before_rename": "a file is whole under its temporary name",
    "after_rename": "a file has its name, its folder is not synced",
    "before_publish": "a folder is whole under its temporary name",
    "after_publish": "a folder has its name, its parent is not synced",
    "after_children": "what a dead server left running is ended, not recorded",
    "in_recover": "what a dead server left open is settled, not committed",
    "after_recover": "what a dead server left open is settled, nothing is taken up",
    "before_take_up": "a run has a driver, which has done nothing",
    "in_take_up": "a run is moved to running, not committed",
    "after_take_up": "a run is taken up, its first phase not begun",
    "in_round_begin": "a round's row, job and event are inserted, not committed",
    "after_round_begin": "a round is begun, its first phase is not",
    "after_round": "a round has its decision, its working files are still there",
    "in_rest": "a run is moved to its end or halt, not committed",
    "after_run": "a run has ended, its driver has not",
    "before_intent": "a phase is prepared, its intent not recorded",
    "in_intent": "a phase's intent is inserted, not committed",
    "after_intent": "a phase's intent is recorded, nothing done",
    "after_execute": "a phase's work is done, its result not recorded",
    "in_record": "a phase's rows, result and event are written, not committed",
    "after_result": "a phase's result is recorded, the next one not begun",
    "in_steer": "a steer is delivered or dropped, not committed",
    "before_controls": "control requests were seen, not carried out",
    "in_controls": "control requests are carried out, not committed",
    "after_controls": "control requests are carried out, no run is driven for them",
    "in_lease_begin": "a lease and its reservation are inserted, not committed",
    "after_lease_begin": "the device is held, nothing done with it",
    "in_lease_renew": "a slice is settled and the next reserved, not committed",
    "after_lease_renew": "a lease is renewed, its holder not told",
    "before_lease_end": "work on the device is over, its lease not ended",
    "in_lease_end": "a lease is ended and settled, not committed",
    "before_answers": "a batch of answers came, none of it is on disk",
    "after_answers": "a batch of answers is on disk, the phase goes on",
    "before_reserve": "a paid call is wanted, nothing reserved",
    "in_reserve": "a call and its reservation are inserted, not committed",
    "after_reserve": "money is reserved, nothing sent",
    "after_send": "a paid call was answered, nothing settled",
    "in_settle": "a call's cost is settled and its answer written, not committed",
    "after_settle": "a paid call is settled, its step not recorded",
    "in_charge": "a call without an answer is charged whole, not committed",
    "in_release": "a call that cost nothing is given back, not committed",
    "before_retry": "a failed call is settled, its next attempt not begun",
    "in_server_end": "a server's end is written, not committed",
    "after_server_end": "a server's end is recorded, the process is still there",
}

_lock = threading.Lock()
_counting = False
_passed: Counter[str] = Counter()
_ahead: list[tuple[str, int]] = []  # points still to come, each with how many passes are left


def point(name: str) -> None:
    """Pass a named point; dies here when armed for this pass of it."""
    if _counting:
        with _lock:
            _pass(name)


def arm(at: str = "") -> None:
    """Count passes from here on, and die at `at` when it is given."""
    global _counting
    _ahead[:] = [_read(one) for one in at.split(",") if one]
    _passed.clear()
    _counting = True


def passes() -> dict[str, int]:
    """How often each point was passed since `arm`."""
    with _lock:
        return dict(_passed)


def _pass(name: str) -> None:
    assert name in POINTS, f"crash point {name} is not listed"
    _passed[name] += 1
    if not _ahead or _ahead[0][0] != name:
        return
    _, left = _ahead.pop(0)
    if left > 1:
        _ahead.insert(0, (name, left - 1))
    elif not _ahead:
        os.kill(os.getpid(), signal.SIGKILL)


def _read(one: str) -> tuple[str, int]:
    name, _, count = one.partition("#")
    assert name in POINTS, f"crash point {name} is not listed"
    return name, int(count)


if "CRASH_AT" in os.environ:
    arm(os.environ["CRASH_AT"])
