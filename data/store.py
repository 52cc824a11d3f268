"""The one way to the database: a writer thread with group commit, read-only connections for reads.

Never call a model, train or wait for the network inside a write.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine as Database
from sqlalchemy import create_engine, event
from sqlalchemy.pool import QueuePool
from sqlmodel import Session

from data.migrations import migrate

Write = Callable[[Session], Any]

GROUP_LIMIT = 500  # writes in one commit
CHATTER_SECONDS = 0.05  # how long progress may wait for company


class StoreClosed(Exception):
    """A write came where the store takes none: it was closed, or is another process's."""


class Reader:
    """Read-only sessions on the database at `path`, also beside the server that writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader_db = _reader_database(path)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A read-only session on one snapshot of the database."""
        with Session(self._reader_db, expire_on_commit=False) as session:
            yield session

    def write(self, change: Write) -> Any:
        """Refused: the server that holds the home is the one writer."""
        raise StoreClosed("this process only reads; the running server writes")

    def close(self) -> None:
        """Close every connection."""
        self._reader_db.dispose()


class Store(Reader):
    """Opens `path`, brings its schema up to date and starts the writer thread."""

    def __init__(self, path: Path) -> None:
        self._writer_db = _writer_database(path)
        migrate(self._writer_db)
        super().__init__(path)
        self._queue: queue.SimpleQueue[tuple[Write, Future[Any] | None] | None] = (
            queue.SimpleQueue()
        )
        self._closed = False
        self._door = threading.Lock()  # nothing may be queued behind the last item
        self._thread = threading.Thread(target=self._write_loop, name="writer", daemon=True)
        self._thread.start()

    def write(self, change: Write) -> Any:
        """Run `change(session)` in a write transaction; returns its result after the commit.

        Several changes may share one commit, each behind its own savepoint: an exception in one
        undoes that one alone and is raised here.
        """
        answer: Future[Any] = Future()
        self._put((change, answer))
        return answer.result()

    def post(self, change: Write) -> None:
        """Like `write`, without waiting: for progress that a crash may lose the last moment of."""
        self._put((change, None))

    def close(self) -> None:
        """Finish what is queued and close every connection."""
        with self._door:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self._writer_db.dispose()
        super().close()

    def _put(self, item: tuple[Write, Future[Any] | None]) -> None:
        with self._door:
            if self._closed:
                raise StoreClosed("the store is closed; start the server again")
            self._queue.put(item)

    def _write_loop(self) -> None:
        """Take what waits, commit it together, answer after the commit."""
        going = True
        while going:
            batch, going = self._next_batch()
            if batch:
                self._commit(batch)

    def _next_batch(self) -> tuple[list[tuple[Write, Future[Any] | None]], bool]:
        first = self._queue.get()
        batch: list[tuple[Write, Future[Any] | None]] = []
        deadline = time.monotonic() + CHATTER_SECONDS
        item = first
        while item is not None:
            batch.append(item)
            urgent = any(answer is not None for _, answer in batch)
            wait = 0.0 if urgent else max(0.0, deadline - time.monotonic())
            if len(batch) >= GROUP_LIMIT:
                return batch, True
            try:
                item = self._queue.get(timeout=wait) if wait else self._queue.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _commit(self, batch: list[tuple[Write, Future[Any] | None]]) -> None:
        """One transaction for the batch; when it is lost as a whole, everyone in it is told."""
        results: list[tuple[Future[Any], Any, Exception | None]] = []
        try:
            with Session(self._writer_db, expire_on_commit=False) as session:
                for change, answer in batch:
                    result, error = _apply(session, change)
                    if answer is not None:
                        results.append((answer, result, error))
                session.commit()
        except Exception as error:  # noqa: BLE001  nobody's change is there, whatever it was
            results = [(answer, None, error) for _, answer in batch if answer is not None]
        for answer, result, failure in results:
            if failure is None:
                answer.set_result(result)
            else:
                answer.set_exception(failure)


def _apply(session: Session, change: Write) -> tuple[Any, Exception | None]:
    """Run one change behind its own savepoint: its result, or the error that undid it alone.

    On a full disk and the like SQLite undoes the whole transaction by itself; that error is raised,
    since the changes before this one are gone as well.
    """
    connection = session.connection().connection.dbapi_connection
    try:
        with session.begin_nested():
            result = change(session)
            session.flush()
        return result, None
    except Exception as error:
        if not getattr(connection, "in_transaction", False):
            raise
        return None, error


def _writer_database(path: Path) -> Database:
    db = create_engine(f"sqlite:///{path}", poolclass=QueuePool, pool_size=1, max_overflow=0)

    @event.listens_for(db, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are ours, see _begin
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "busy_timeout=5000",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(db, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return db


def _reader_database(path: Path) -> Database:
    url = f"sqlite:///file:{path}?mode=ro&uri=true"
    db = create_engine(url, poolclass=QueuePool, pool_size=16, max_overflow=24)

    @event.listens_for(db, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in ("query_only=ON", "synchronous=FULL", "busy_timeout=5000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(db, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return db
