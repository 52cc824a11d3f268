"""The store: one writer, answers after the commit, each change undone alone."""

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlmodel import select

from data.migrations import NewerDatabase
from data.store import Store, StoreClosed
from data.tables import SCHEMA_VERSION, Setting


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "pawl.db")
    yield store
    store.close()


def put(name: str, value: str = "x"):
    return lambda session: session.add(Setting(name=name, value=value))


def names(store: Store) -> set[str]:
    with store.read() as session:
        return set(session.exec(select(Setting.name)))


def test_a_write_is_there_when_its_call_returns(store):
    store.write(put("a"))
    assert names(store) == {"a"}


def test_a_failing_change_is_undone_alone_and_told_to_its_caller(store):
    release = threading.Event()
    store.post(lambda session: release.wait(60))  # holds the writer: the rest share a commit
    outcomes: dict[str, object] = {}

    def write(name: str, value: str | None) -> None:
        try:
            outcomes[name] = store.write(lambda s: s.add(Setting(name=name, value=value)))
        except IntegrityError as error:
            outcomes[name] = error

    threads = [
        threading.Thread(target=write, args=pair)
        for pair in (("good", "x"), ("bad", None), ("fine", "y"))
    ]
    for thread in threads:
        thread.start()
    release.set()
    for thread in threads:
        thread.join()
    assert names(store) == {"good", "fine"}
    assert isinstance(outcomes["bad"], IntegrityError) and outcomes["good"] is None


def test_on_a_full_disk_nobody_is_told_that_a_lost_write_is_there(store):
    """SQLite undoes the whole transaction then, so the changes before the failing one are lost."""
    store.write(lambda s: s.execute(text("PRAGMA max_page_count=150")))
    begun, release = threading.Event(), threading.Event()
    store.post(lambda session: (begun.set(), release.wait(60)))
    assert begun.wait(60)  # what comes now shares the next commit
    outcomes: dict[str, object] = {}

    def write(name: str, value: str) -> None:
        try:
            outcomes[name] = store.write(put(name, value))
        except OperationalError as error:
            outcomes[name] = error

    threads = []
    for name, value in (("first", "x"), ("big", "x" * 2_000_000), ("after", "x")):
        threads.append(threading.Thread(target=write, args=(name, value)))
        threads[-1].start()
        time.sleep(0.05)  # in this order
    release.set()
    for thread in threads:
        thread.join()
    there = names(store)
    assert all((outcomes[name] is None) == (name in there) for name in outcomes)
    assert isinstance(outcomes["big"], OperationalError)


def test_every_connection_is_durable_and_readers_cannot_write(store):
    pragmas = store.write(
        lambda s: [
            s.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    )
    assert pragmas == ["wal", 2, 1]
    with store.read() as session:
        assert session.execute(text("PRAGMA query_only")).scalar() == 1
        with pytest.raises(Exception, match="readonly|read-only"):
            session.execute(text("DELETE FROM setting"))


def test_twenty_writers_lose_nothing(store):
    def write(number: int) -> None:
        for i in range(20):
            store.write(put(f"{number}-{i}"))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(store)) == 400


def test_posted_changes_are_written_before_the_store_closes(tmp_path):
    store = Store(tmp_path / "pawl.db")
    for i in range(50):
        store.post(put(str(i)))
    store.close()
    again = Store(tmp_path / "pawl.db")
    assert len(names(again)) == 50
    again.close()
    with pytest.raises(StoreClosed):
        store.write(put("late"))


def test_a_database_of_a_newer_pawl_is_refused(tmp_path: Path):
    store = Store(tmp_path / "pawl.db")
    store.write(lambda s: s.execute(text("CREATE TABLE marker (x)")))
    store.close()
    import sqlite3

    with sqlite3.connect(tmp_path / "pawl.db") as db:
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    db.close()
    with pytest.raises(NewerDatabase, match="update Pawl"):
        Store(tmp_path / "pawl.db")
