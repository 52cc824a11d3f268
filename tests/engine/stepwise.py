"""Runs that stand still where a test wants them; a Pawl that goes on by steps, and can die."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.shapes import RunDetail
from data import crash
from tests.instance import OWNER, Instance

# Where a run stands still: at the boundaries of its phases and rounds.
HELD = frozenset(
    {
        *("after_take_up", "after_round_begin", "after_round"),
        *("before_intent", "after_intent", "after_execute", "after_result"),
    }
)
IN_A_CALL = "after_send"  # a paid call was answered, nothing is settled
SECONDS = 120  # for what takes moments


@contextmanager
def standing(pawl: Instance, run: str, point: str) -> Iterator[RunDetail]:
    """A run as it stands still at a named point; it goes on when the block is over."""
    there, free = threading.Event(), threading.Event()

    def stand(name: str) -> None:
        if name == point and threading.current_thread().name == f"run-{run}":
            there.set()
            free.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crash, "point", stand)
        try:
            tries = 100 * SECONDS
            while not there.wait(0.01):
                pawl.engine.tick()
                tries -= 1
                assert tries, f"{run} does not come to {point}"
            yield pawl.service.run_detail(OWNER, run)
        finally:
            free.set()


class Stepwise(Instance):
    """One life of a server; while it lives, all crash points of this process are its own."""

    def __init__(self, path: Path, **more: Any) -> None:
        self._patch = pytest.MonkeyPatch()
        self._changed = threading.Condition()
        self._steps: Counter[str] = Counter()  # thread of a run -> how many it may still take
        self._held: set[str] = set()
        self._free = self._dead = False
        self._calls_left = 0
        self._patch.setattr(crash, "point", self._pass)
        tell = threading.excepthook
        self._patch.setattr(
            threading, "excepthook", lambda said: said.exc_type is SystemExit or tell(said)
        )
        super().__init__(path, **more)

    def work(self, steps: int) -> None:
        """Let the engine look for work, then every run take so many steps, or fewer to its end."""
        self.engine.tick()
        self._let(0)
        self._let(steps)

    def die(self, calls: int = 0) -> None:
        """Die as at `kill -9`: where the runs stand, or at the answer of one of their next calls."""
        if calls:
            self._calls_left = calls
            self.work(1)
        self.store.close()  # nothing is written any more, whatever the threads would like to
        with self._changed:
            self._dead = True
            self._changed.notify_all()
        self._join()

    def end(self) -> None:
        """End in order, as at Ctrl-C."""
        self.engine.interrupt()
        with self._changed:
            self._free = True
            self._changed.notify_all()
        self.engine.stop()
        self.store.close()
        self._join()

    def _pass(self, name: str) -> None:
        if name == IN_A_CALL and self._calls_left:
            self._count_call()
        me = threading.current_thread().name
        if name not in HELD or not me.startswith("run-"):
            return
        with self._changed:
            self._held.add(me)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._dead or self._free or self._steps[me])
            self._held.discard(me)
            self._steps[me] -= 1
            if self._dead:
                raise SystemExit  # ends the thread; nobody handles it, nobody is told

    def _count_call(self) -> None:
        with self._changed:
            self._calls_left -= 1
            self._dead = not self._calls_left
            self._changed.notify_all()
        if self._dead:
            self.store.close()
            raise SystemExit

    def _let(self, steps: int) -> None:
        """Give each run its steps and wait until it has taken them or is over."""
        with self._changed:
            self._steps = Counter({thread.name: steps for thread in _drivers()})
            self._changed.notify_all()
            # The end of a thread tells nobody, so it is looked for.
            tries = 100 * SECONDS
            while not all(self._stands(thread) for thread in _drivers()):
                self._changed.wait(0.01)
                tries -= 1
                assert tries, f"{[thread.name for thread in _drivers()]} take no end"

    def _stands(self, thread: threading.Thread) -> bool:
        return thread.name in self._held and self._steps[thread.name] <= 0

    def _join(self) -> None:
        for thread in _drivers():
            thread.join(SECONDS)
            assert not thread.is_alive(), f"{thread.name} goes on after its server's end"
        self._patch.undo()


def _drivers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("run-")]
