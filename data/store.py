"""The one way to the database: a writer thread with group commit, read-only connections for reads.

Never call a model, train or wait for the network inside a write.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Engine as Database
from sqlalchemy import create_engine, event
from sqlalchemy.pool import QueuePool
from sqlmodel import Session

from data import crash
from data.inbox import Change, Inbox, Row, Write, WriteRows
from data.migrations import migrate

log = logging.getLogger(__name__)

GROUP_LIMIT = 500  # changes and rows in one commit
WINDOW_SECONDS = (0.05, 0.25)  # how long progress may wait for company: at rest, under load
COMMITS_A_WINDOW = 10  # a window is this many times as long as its commit takes

Found = TypeVar("Found")


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

    def write(self, change: Callable[[Session], Found]) -> Found:
        """Refused: the server that holds the home is the one writer."""
        raise StoreClosed("this process only reads; the running server writes")

    def close(self) -> None:
        """Close every connection."""
        self._reader_db.dispose()


class Store(Reader):
    """Opens `path`, brings its schema up to date and starts the writer thread."""

    def __init__(self, path: Path) -> None:
        self._writer_db = writer_database(path)
        migrate(self._writer_db)
        super().__init__(path)
        self._inbox = Inbox(GROUP_LIMIT)
        self._thread = threading.Thread(target=self._write_loop, name="writer", daemon=True)
        self._thread.start()

    def write(self, change: Callable[[Session], Found]) -> Found:
        """Run `change(session)` in a write transaction; returns its result after the commit.

        Several changes may share one commit, each behind its own savepoint: an exception in one
        undoes that one alone and is raised here.
        """
        answer: Future[Found] = Future()
        self._put(Change(change, answer))
        return answer.result()

    def post(self, change: Write) -> None:
        """Like `write`, without waiting: for progress that a crash may lose the last moment of."""
        self._put(Change(change))

    def post_row(self, write_rows: WriteRows, row: Any) -> None:
        """Like `post`, for rows that come by the thousand: `write_rows` is given many at once.

        Rows keep their order, and are written before any change that is queued after them. One that
        does not fit takes those beside it along: check a row before it is posted.
        """
        self._put(Row(write_rows, row))

    def close(self) -> None:
        """Finish what is queued and close every connection."""
        if self._inbox.close():
            self._thread.join()
            self._writer_db.dispose()
            super().close()

    def _put(self, one: Change | Row) -> None:
        if not self._inbox.put(one):
            raise StoreClosed("the store is closed; start the server again")

    def _write_loop(self) -> None:
        """Take what waits, commit it together, answer after the commit.

        The longer a commit takes, on a slow disk or a busy machine, the longer progress gathers.
        """
        least, most = WINDOW_SECONDS
        window = least
        while group := self._inbox.take(window):
            began = time.monotonic()
            self._commit(group)
            window = min(most, max(least, COMMITS_A_WINDOW * (time.monotonic() - began)))

    def _commit(self, group: list[Change | Row]) -> None:
        """One transaction for the group; when it is lost as a whole, everyone in it is told."""
        results: list[tuple[Future[Any], Any, Exception | None]] = []
        changes = _with_rows_together(group)
        try:
            with Session(self._writer_db, expire_on_commit=False) as session:
                for change in changes:
                    result, error = _apply(session, change.write)
                    if change.answer is not None:
                        results.append((change.answer, result, error))
                    elif error is not None:
                        log.warning("progress was not written: %s", _cause(error))
                crash.point("before_commit")
                session.commit()
                crash.point("after_commit")
        except Exception as error:  # noqa: BLE001  nobody's change is there, whatever it was
            log.warning("a commit was lost: %s", _cause(error))
            answers = [change.answer for change in changes if change.answer is not None]
            results = [(answer, None, error) for answer in answers]
        for answer, result, failure in results:
            if failure is None:
                answer.set_result(result)
            else:
                answer.set_exception(failure)


def _with_rows_together(group: list[Change | Row]) -> list[Change]:
    """The changes of a group in order, where the rows between two of them are one change."""
    changes: list[Change] = []
    rows: dict[WriteRows, list[Any]] = {}
    for one in [*group, None]:
        if isinstance(one, Row):
            rows.setdefault(one.write_rows, []).append(one.row)
            continue
        changes += [_together(write_rows, some) for write_rows, some in rows.items()]
        rows = {}
        if one is not None:
            changes.append(one)
    return changes


def _together(write_rows: WriteRows, rows: list[Any]) -> Change:
    return Change(lambda session: write_rows(session, rows))


def _apply(session: Session, change: Write) -> tuple[Any, Exception | None]:
    """Run one change behind its own savepoint: its result, or the error that undid it alone.

    On a full disk and the like SQLite undoes the whole transaction by itself; that error is raised,
    since the changes before this one are gone as well.
    """
    connection = session.connection().connection.dbapi_connection
    failed: Exception | None = None
    try:
        with session.begin_nested():
            try:
                result = change(session)
                session.flush()
            except Exception as error:
                failed = error  # going back to the savepoint may fail as well, and says less
                raise
        return result, None
    except Exception as error:  # noqa: BLE001  the caller is told, whatever it was
        if not getattr(connection, "in_transaction", False):
            raise failed or error from None
        return None, failed or error


def _cause(error: Exception) -> str:
    """What went wrong, without the statement and its values: those are nobody's business in a log."""
    return f"{type(error).__name__}: {getattr(error, 'orig', None) or 'see its caller'}"


def writer_database(path: Path) -> Database:
    """The connection that writes: durable at every commit, each transaction begun as a write."""
    db = create_engine(
        f"sqlite:///{path}", poolclass=QueuePool, pool_size=1, max_overflow=0, hide_parameters=True
    )

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
    db = create_engine(
        url, poolclass=QueuePool, pool_size=16, max_overflow=24, hide_parameters=True
    )

    @event.listens_for(db, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in ("query_only=ON", "synchronous=FULL", "busy_timeout=5000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(db, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return db
