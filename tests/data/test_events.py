"""Events: numbered without gaps whatever fails on the way, in the order they were told."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlmodel import Session, col, select

from data import events
from data.store import Store
from data.tables import Event, Live


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "pawl.db")
    yield store
    store.close()


def told(store: Store, run: str = "a") -> list[tuple[int, str]]:
    """Number and text of a run's events, in order."""
    with store.read() as session:
        query = select(Event).where(Event.run == run).order_by(col(Event.seq))
        return [(event.seq, event.text) for event in session.exec(query)]


def held(store: Store) -> threading.Event:
    """Hold the writer, so that all that comes before the event is set shares a commit."""
    begun, release = threading.Event(), threading.Event()

    def hold(session: Session) -> None:
        begun.set()
        release.wait(60)

    store.post(hold)
    assert begun.wait(60)
    return release


def test_posted_and_written_events_of_two_runs_are_numbered_in_order(store: Store) -> None:
    release = held(store)
    for number in range(3):
        events.post(store, "a", "message", f"step {number}")
        events.post(store, "b", "message", f"other {number}")
    release.set()
    assert store.write(lambda s: events.append(s, "a", "round", "done")) == 4
    assert told(store) == [(1, "step 0"), (2, "step 1"), (3, "step 2"), (4, "done")]
    assert [seq for seq, _ in told(store, "b")] == [1, 2, 3]


def test_an_event_whose_change_is_undone_leaves_no_gap(store: Store) -> None:
    def fails(session: Session) -> None:
        events.append(session, "a", "message", "never happened")
        raise ValueError("undone")

    events.post(store, "a", "message", "before")
    with pytest.raises(ValueError, match="undone"):
        store.write(fails)
    store.write(lambda s: events.append(s, "a", "message", "after"))
    assert told(store) == [(1, "before"), (2, "after")]


def test_events_lost_on_a_full_disk_leave_no_gap_and_the_next_ones_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(lambda s: events.append(s, "a", "message", "before"))
    store.write(lambda s: s.execute(text("PRAGMA max_page_count=1")))  # no more than it has
    release = held(store)
    for number in range(400):
        events.post(store, "a", "message", f"{number} " + "x" * 400)
    failed: list[Exception] = []
    put, queued = store._put, threading.Event()

    def queue(one: Any) -> None:
        put(one)
        queued.set()

    def write() -> None:
        try:
            store.write(lambda s: events.append(s, "a", "message", "told to be lost"))
        except OperationalError as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    with monkeypatch.context() as patch:
        patch.setattr(store, "_put", queue)
        thread.start()
        assert queued.wait(60)  # with those before it, for the one commit that is lost
    release.set()
    thread.join()
    assert failed and "full" in str(failed[0])
    store.write(lambda s: s.execute(text("PRAGMA max_page_count=100000")))
    store.write(lambda s: events.append(s, "a", "message", "after"))
    assert told(store) == [(1, "before"), (2, "after")]


def test_of_progress_that_comes_close_together_the_last_is_shown(store: Store) -> None:
    store.write(lambda s: events.show(s, "a", phase="train", done=0, total=9))
    for done in range(10):
        events.post_show(store, "a", done=done)
    store.write(lambda session: None)
    with store.read() as session:
        live = session.get_one(Live, "a")
    assert (live.phase, live.done, live.total) == ("train", 9, 9)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("two\nlines\u2028three", "two lines three"),
        ("a\x00b\u202ec\ud800d", "a b c d"),
        ("  wide   space\u00a0here ", "wide space here"),
        ("ü" * 600, "ü" * 499 + "…"),
    ],
)
def test_an_event_is_one_line_of_at_most_500_characters(
    store: Store, given: str, line: str
) -> None:
    events.post(store, "a", "message", given)
    store.write(lambda session: None)
    assert told(store) == [(1, line)]
