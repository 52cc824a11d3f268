"""Lives of a server for the crash tests: each a process of its own that may die on the way.

`python -m tests.crash_child` imports everything once, then forks a child for each line on standard
input and answers in a line how that child ended. A life carries the run of its home to the end,
whatever state it is found in, and gives the canonical dump.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from sqlmodel import col, select

from app.errors import Conflict
from data import crash
from data.home import HomeLock, open_home
from data.lifecycle import ENDED
from data.tables import Control, Run
from engine import lease
from tests.crash_dump import dump
from tests.instance import Instance, instance
from tests.stopwatch import Stopwatch

RUN = "r-1"
MICRO_PER_HOUR = 36_000_000  # a cent a second
FIELDS: dict[str, dict[str, Any]] = {
    "live": {
        "operator_model": "sim/operator",
        "limits": {
            "max_model_cost_usd": 1.0,
            "max_cost_usd": 50.0,
            "diag_per_family": 4,
            "dev_n": 100,
            "collect_tasks": 240,
            "collect_k": 1,
            "admission_n": 10,
            "blind_n": 100,
            "eval_limit": 50,
        },
    },
    "dry": {
        "dry_run": True,
        "operator_model": "sim/operator",
        "teacher_model": "sim/teacher",
        "limits": {
            "max_model_cost_usd": 1.0,
            "diag_per_family": 2,
            "dev_n": 16,
            "collect_tasks": 12,
            "collect_k": 1,
            "admission_n": 5,
            "blind_n": 16,
            "eval_limit": 8,
        },
    },
}

# What people say, each at a recorded moment: the database itself adds their row to the transaction
# that makes the moment, so that it is said once and at the same point of every history.
STEP_DONE = (
    "UPDATE OF status ON step WHEN NEW.status = 'done' AND NEW.step = '{}' AND NEW.round = {}"
)
STATE_IS = "UPDATE OF state ON run WHEN NEW.state = '{}' AND NEW.round = {}"
STEER = (
    "INSERT INTO steer (id, project_id, run, text, author, status, created_at)"
    " VALUES ('{0}', 'prj_local', 'r-1', 'words of {0}', 'ann', 'queued', 'then');"
)
CONTROL = (
    "INSERT INTO control (project_id, run, action, rounds, limits, author, status, created_at)"
    " VALUES ('prj_local', 'r-1', '{}', {}, '{{}}', 'ann', 'requested', 'then');"
)
DIRECTIVE = (
    "INSERT INTO directive (id, project_id, run, text, author, created_at)"
    " VALUES ('d-1', 'prj_local', 'r-1', 'carry more', 'ann', 'then');"
)
SAID: dict[str, tuple[str, ...]] = {
    STEP_DONE.format("prepare", 0): (DIRECTIVE,),
    STEP_DONE.format("diagnose", 1): (STEER.format("s-1"),),
    STATE_IS.format("finished", 1): (CONTROL.format("extend", 3),),
    "UPDATE OF status ON control WHEN NEW.action = 'extend' AND NEW.status = 'done'": (
        CONTROL.format("stop", "NULL"),
        STEER.format("s-2"),  # dropped, since the stop comes before a next turn
    ),
    STATE_IS.format("stopped", 1): (CONTROL.format("resume", "NULL"),),
    STEP_DONE.format("diagnose", 2): (STEER.format("s-3"),),
    STEP_DONE.format("plan", 2): (CONTROL.format("stop", "NULL"), STEER.format("s-4")),
}


def live(home: Path, kind: str, crash_at: str) -> dict[str, Any]:
    """One life on a home: the dump, how often each point was passed, when the run was taken up."""
    watch = Stopwatch()
    crash.arm(crash_at)
    lease.RENEW_SECONDS = 0.05  # type: ignore[assignment]  # phases take moments here
    lock = HomeLock(open_home(home))
    with instance(home, MICRO_PER_HOUR) as pawl:
        pawl.store.write(_let_people_speak)
        try:
            pawl.start(RUN, rounds=1, **FIELDS[kind])
        except Conflict:
            pass
        taken_up = _carry_through(pawl, watch)
    found = dump(open_home(home), RUN)
    lock.release()
    return {"dump": found, "passes": crash.passes(), "taken_up": taken_up}


def _let_people_speak(session: Any) -> None:
    for number, (moment, words) in enumerate(SAID.items()):
        session.connection().exec_driver_sql(
            f"CREATE TRIGGER IF NOT EXISTS people_{number} AFTER {moment}"
            f" BEGIN {' '.join(words)} END"
        )


def _carry_through(pawl: Instance, watch: Stopwatch, seconds: float = 120) -> float:
    """Tick until the run has ended and nothing is asked of it; when it was taken up."""
    taken_up = 0.0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pawl.engine.tick()
        with pawl.store.read() as session:
            run = session.get_one(Run, RUN)
            asked = session.exec(select(Control).where(col(Control.status) == "requested")).first()
        over = run.state in ENDED and asked is None
        if over or crash.passes().get("after_take_up"):
            taken_up = taken_up or watch.seconds
        if over:
            return taken_up
        time.sleep(0.04)
    raise AssertionError(f"the run is still {run.state}: {run.reason}")


def serve() -> None:
    """Answer every line of standard input with how a life as it says ended."""
    for line in sys.stdin:
        assert threading.active_count() == 1, "a process with threads must not fork"
        print(json.dumps(_one_life(**json.loads(line))), flush=True)


def _one_life(home: str, kind: str, crash_at: str, kill_after: float | None) -> dict[str, Any]:
    """Fork a life, kill it after `kill_after` seconds if it is given, and wait for its end."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.dup2(said.fileno(), 1)
            os.dup2(complained.fileno(), 2)
            _be_child(Path(home), kind, crash_at)
        if kill_after is not None:
            _kill_later(pid, kill_after)
        _, status, used = os.wait4(pid, 0)
        seconds = time.monotonic() - began
        said.seek(0)
        complained.seek(0)
        text = said.read()
        return {
            "code": os.waitstatus_to_exitcode(status),
            "found": json.loads(text) if text else None,
            "complaint": complained.read().decode(errors="replace"),
            "left": _of_session(pid),
            "seconds": seconds,
            "cpu": used.ru_utime + used.ru_stime,
        }


def _be_child(home: Path, kind: str, crash_at: str) -> None:
    code = 1
    try:
        text = json.dumps(live(home, kind, crash_at)).encode()
        with open(1, "wb", closefd=False) as out:
            out.write(text)
        code = 0
    except BaseException:  # noqa: BLE001  told to who asked for this life
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _kill_later(pid: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)


def _of_session(leader: int) -> list[int]:
    """Processes that still run in the session of a life that is over."""
    left = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] not in "ZX":
            left.append(int(folder.name))
    return left


if __name__ == "__main__":
    serve()
