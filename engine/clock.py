"""The engine's timer: calls a function at an even pace, whatever happens to the wall clock.

APScheduler plans by the wall clock. Set back an hour, it would sleep for an hour; set forward, it
would list every call that was missed. So its trigger counts from the present moment, never from
the last call, and a watch on the monotonic clock makes due what has moved out of reach.
"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger


class Timer:
    """Calls `call` every `seconds` on a thread of its own, one call at a time, until `stop`."""

    def __init__(self, call: Callable[[], None], seconds: float) -> None:
        self._seconds = seconds
        self._stopped = threading.Event()
        self._scheduler = BackgroundScheduler(timezone=UTC)
        self._job: Any = self._scheduler.add_job(
            call, _Evenly(seconds), max_instances=1, coalesce=True, misfire_grace_time=None
        )
        self._watch = threading.Thread(target=self._look, name="clock", daemon=True)

    def start(self) -> None:
        """Begin; the first call comes after one interval."""
        self._scheduler.start()
        self._watch.start()

    def stop(self) -> None:
        """Call no more, and wait for a call that is under way."""
        self._stopped.set()
        self._watch.join()
        self._scheduler.shutdown(wait=True)

    def _look(self) -> None:
        far = timedelta(seconds=2 * self._seconds)
        while not self._stopped.wait(self._seconds):
            present = datetime.now(UTC)
            if self._job.next_run_time - present > far:
                self._job.modify(next_run_time=present)


class _Evenly(BaseTrigger):  # type: ignore[misc]
    """Due one interval from now, so that there is never more than one call to catch up with."""

    def __init__(self, seconds: float) -> None:
        self._interval = timedelta(seconds=seconds)

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        return now + self._interval
