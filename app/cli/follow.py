"""Follows a run's live view and a job's log to their end, across lost connections."""

import sys
import time
from collections.abc import Callable
from typing import Any, Self

from app.cli.door import Door
from app.cli.problem import Problem
from app.cli.show import plain

POLL_SECONDS = 1.0
PATIENCE_SECONDS = 120.0  # a server that restarts takes seconds, a migration may take longer
ENDED = frozenset({"finished", "failed", "stopped", "unreadable"})

Page = dict[str, Any]


def follow_run(read: Callable[..., Page], since: int) -> str:
    """Print every event after `since`, once and in order, until the run is over; its last state.

    `read(since)` gives a page of the live view. A run that has ended is over once the page with
    its last event was printed.
    """
    page = read(since)
    while True:
        for event in page.get("events") or []:
            if event["seq"] > since:
                print(f"{event['seq']} {plain(event['kind'])}: {plain(event['text'])}", flush=True)
                since = event["seq"]
        state = page.get("run_state") or page.get("state")
        if state in ENDED and not page.get("has_more"):
            return str(state)
        if not page.get("has_more"):
            time.sleep(POLL_SECONDS)
        page = patiently(read, since)


def follow_log(
    read: Callable[..., Page], cursor: str | None, show: Callable[[Page], None], **first: Any
) -> None:
    """Show every page of a job's log until nothing can be added to it.

    `read(cursor)` gives the page after a cursor; `first` is asked of the first page alone.
    """
    page = read(cursor, **first)
    while True:
        show(page)
        if page.get("eof") and not page.get("has_more"):
            return
        cursor = page.get("next_cursor") or cursor
        if not page.get("has_more"):
            time.sleep(POLL_SECONDS)
        page = patiently(read, cursor)


class Pages:
    """Reads pages, and looks for the server anew once it was lost: it may have moved.

    `place` names the option that says where a page begins.
    """

    def __init__(self, path: str, place: str, **query: Any) -> None:
        self._path, self._place, self._query = path, place, query
        self._door: Door | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._door is not None:
            self._door.__exit__()
            self._door = None

    def __call__(self, since: Any, **more: Any) -> Page:
        self._door = self._door or Door()
        try:
            given = {**self._query, self._place: since, **more}
            page: Page = self._door.get(self._path, **given)
        except Problem:
            self.__exit__()
            raise
        return page


def patiently(read: Callable[..., Page], place: Any) -> Page:
    """Read until there is an answer; Problem when it is refused, or nothing comes for two minutes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    told = False
    while True:
        try:
            return read(place)
        except Problem as problem:
            if not problem.is_passing or time.monotonic() > deadline:
                raise
            if not told:
                print("The connection is lost; trying again.", file=sys.stderr, flush=True)
                told = True
        time.sleep(POLL_SECONDS)
