"""The store under load: many writers at once, and events by the thousand."""

import os
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlmodel import Session, col, func, select

from data import events
from data.store import Store
from data.tables import Event, Setting

SECONDS = 30.0 if os.environ.get("PAWL_LONG") == "1" else 5.0
THREADS = 20
EVENTS_A_SECOND = 1000


def test_twenty_threads_that_read_then_write_meet_no_lock_and_wait_little(tmp_path: Path) -> None:
    store = Store(tmp_path / "pawl.db")
    waits: list[float] = []
    counts = at_once(THREADS, lambda name: read_then_write(store, name, waits))
    with store.read() as session:
        stored = session.exec(select(Setting.value)).all()
    store.close()
    assert sorted(map(int, stored)) == sorted(counts)  # every write that was answered is there
    assert min(counts) > 5
    assert percentile(waits, 99) < 0.5, f"p99 {percentile(waits, 99):.3f} s of {len(waits)} writes"


def read_then_write(store: Store, name: str, waits: list[float]) -> int:
    """Count up in a row of this thread's own, reading before each write; how far it came."""
    count = 0
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with store.read() as session:
            found = session.get(Setting, name)
        assert int(found.value if found else 0) == count
        count += 1
        began = time.monotonic()
        store.write(partial(put, Setting(name=name, value=str(count))))
        waits.append(time.monotonic() - began)
    return count


def put(row: Setting, session: Session) -> None:
    session.merge(row)


def at_once(threads: int, work: Callable[[str], int]) -> list[int]:
    """What each of the threads came to; an error in one is raised here."""
    results: dict[str, int | Exception] = {}

    def run(name: str) -> None:
        try:
            results[name] = work(name)
        except Exception as error:  # noqa: BLE001  raised below, in the test's own thread
            results[name] = error

    started = [threading.Thread(target=run, args=(f"t{n}",)) for n in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for result in results.values():
        if isinstance(result, Exception):
            raise result
    return [result for result in results.values() if isinstance(result, int)]


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def test_a_thousand_events_a_second_become_durable_with_under_half_a_core(tmp_path: Path) -> None:
    store = Store(tmp_path / "pawl.db")
    began, cpu = time.monotonic(), time.process_time()
    posted = 0
    behind: list[float] = []
    while (passed := time.monotonic() - began) < SECONDS:
        due = int(passed * EVENTS_A_SECOND)
        for number in range(posted, due):
            events.post(store, "a", "message", f"row {number} admitted")
        posted = due
        behind.append(posted - durable(store))
        time.sleep(0.02)
    store.write(lambda session: None)  # answered when all that was posted is on disk
    wall, used = time.monotonic() - began, time.process_time() - cpu
    assert durable(store) == posted >= 0.95 * EVENTS_A_SECOND * wall
    with store.read() as session:
        assert session.exec(select(func.count()).select_from(Event)).one() == posted
    store.close()
    assert used / wall < 0.5, f"{used / wall:.2f} of a core"
    assert percentile(behind, 99) < EVENTS_A_SECOND, "events are more than a second behind"


def durable(store: Store) -> int:
    """The number of the newest event that another connection sees."""
    with store.read() as session:
        newest = session.exec(select(func.max(Event.seq)).where(col(Event.run) == "a")).one()
    return newest or 0
