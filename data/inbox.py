"""What waits for the writer: changes and progress rows in order, taken in groups."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

Write = Callable[[Session], Any]
WriteRows = Callable[[Session, list[Any]], Any]


@dataclass(slots=True)
class Change:
    """A change of its own, with who waits for its result, if anyone does."""

    write: Write
    answer: Future[Any] | None = None


@dataclass(slots=True)
class Row:
    """One of many alike that are written together."""

    write_rows: WriteRows
    row: Any


class Inbox:
    """Filled by any thread, emptied by the writer alone.

    A change that somebody waits for is handed over at once, with all that came before it; progress
    waits for company until its time is up or a group is full.
    """

    def __init__(self, group_limit: int) -> None:
        self._group_limit = group_limit
        self._waiting: deque[Change | Row] = deque()
        self._awaited = 0  # how many of them somebody waits for
        self._closed = False
        self._news = threading.Condition()

    def put(self, one: Change | Row) -> bool:
        """Queue it; False, and not queued, once the inbox is closed."""
        awaited = type(one) is Change and one.answer is not None
        with self._news:
            if self._closed:
                return False
            self._waiting.append(one)
            self._awaited += awaited
            if awaited or len(self._waiting) in (1, self._group_limit):
                self._news.notify()
            return True

    def take(self, seconds: float) -> list[Change | Row]:
        """The next group, oldest first; `seconds` is how long progress may wait for company.

        Empty only when the inbox is closed and nothing is left in it.
        """
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._closed)
            self._news.wait_for(self._is_due, timeout=seconds)
            count = min(self._group_limit, len(self._waiting))
            group = [self._waiting.popleft() for _ in range(count)]
            self._awaited -= sum(type(one) is Change and one.answer is not None for one in group)
            return group

    def close(self) -> bool:
        """Take nothing more in; False when it was closed already."""
        with self._news:
            was_open, self._closed = not self._closed, True
            self._news.notify()
            return was_open

    def _is_due(self) -> bool:
        full = len(self._waiting) >= self._group_limit
        return full or self._awaited > 0 or self._closed
