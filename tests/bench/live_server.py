"""A server whose run is told 50 events a second, in the server's process as the engine tells them.

The one writer of a home is its server, so the events cannot come from outside of it. Everything
else is what `run.py serve` does: the run is a real dry run, at work beside them, whose simulated
models take half a second for an answer, as models elsewhere do.
"""

import itertools
import os
import sys
import threading
import time
from contextlib import ExitStack
from typing import Any

import run as pawl
from app.opened import Opened
from data import events
from data.store import Store, StoreClosed
from data.tables import Run

RUN = "busy"
RATE = 50.0  # events a second
FIRST = "step 1:"  # how the first of them begins
begin_engine = pawl.begin_engine


def begin_fed(opened: Opened, ends: ExitStack) -> Any:
    """The server's own begin, beside a thread that tells events once the run is at work."""
    threading.Thread(target=feed, args=(opened.store,), daemon=True).start()
    return begin_engine(opened, ends)


def feed(store: Store) -> None:
    """Post events at an even pace until the store closes; those that are late come at once."""
    while not _is_at_work(store):
        time.sleep(0.05)
    began = time.monotonic()
    for number in itertools.count(1):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        text = f"step {number}: loss {3 / (1 + number):.4f}, 32 rows, 1,824 tokens, lr 0.001"
        try:
            events.post(store, RUN, "message", text, role="student", tool="train")
        except StoreClosed:
            return


def _is_at_work(store: Store) -> bool:
    with store.read() as session:
        run = session.get(Run, RUN)
    return run is not None and run.state == "running"


if __name__ == "__main__":
    os.environ["PAWL_SIM_PACE"] = "0.5"
    pawl.begin_engine = begin_fed
    pawl.leave(pawl.main(["serve", "--no-browser", *sys.argv[1:]]))
