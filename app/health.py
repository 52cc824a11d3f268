"""Whether this server can do its work at this moment: the answer of `/readyz`.

`/healthz` says that the process answers, and asks nothing of the database.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future

from sqlmodel import Session
from starlette.responses import JSONResponse

from data.disk import Room
from data.sizes import as_text
from data.tables import Setting, now

Check = Callable[[], str]  # what it found, for people; NotReady when that is not good enough

LIMIT_SECONDS = 3.0  # an answer that takes longer counts as none
KEPT_SECONDS = 1.0  # strangers may ask: no more writes than one a second
NOTE_KEPT_SECONDS = 60.0
SILENT_SECONDS = 10.0  # the engine looks for work twice a second


class NotReady(Exception):
    """Something that is needed does not work; the text says what, and what to do."""


def readyz(
    needed: Mapping[str, Check], told: Mapping[str, Check]
) -> Callable[[], Awaitable[JSONResponse]]:
    """The route: 200 when every needed check is well, else 503 with the names of the others.

    What is `told` is there for information.
    """
    checks = {name: _Asked(check, KEPT_SECONDS) for name, check in needed.items()}
    notes = {name: _Asked(check, NOTE_KEPT_SECONDS) for name, check in told.items()}

    async def answer() -> JSONResponse:
        asked = {**checks, **notes}
        found = dict(zip(asked, await asyncio.gather(*(one() for one in asked.values()))))
        failed = [name for name in checks if not found[name][0]]
        body = {
            "status": "not ready" if failed else "ready",
            "failed": failed,
            "checks": {name: found[name][1] for name in checks},
            **{name: found[name][1] for name in notes},
        }
        headers = {"Cache-Control": "no-store"}
        return JSONResponse(body, status_code=503 if failed else 200, headers=headers)

    return answer


def check_database(write: Callable[[Callable[[Session], object]], object]) -> str:
    """One small durable write."""
    began = time.monotonic()
    try:
        write(_probe)
    except Exception as error:  # noqa: BLE001  told with its reason, whatever it was
        why = getattr(error, "orig", None) or error
        raise NotReady(
            f"nothing can be written ({why}): see logs/server.log, then restart"
        ) from None
    return f"a write takes {(time.monotonic() - began) * 1000:.0f} ms"


def check_disk(room: Room, fullest: float, least_bytes: int) -> str:
    """Room for new work: below `fullest` (a share), and `least_bytes` free."""
    text = f"{room.used_share:.0%} used, {as_text(room.free)} free"
    if room.used_share > fullest or room.free < least_bytes:
        raise NotReady(f"{text}: new work waits; free some space (python3 run.py clean says what)")
    return text


def check_engine(beat_age: float) -> str:
    """The engine's heartbeat, by the seconds since it last looked for work."""
    if beat_age == float("inf"):
        raise NotReady("it has been stopped: restart the server")
    if beat_age > SILENT_SECONDS:
        raise NotReady(f"it has not looked for work for {beat_age:.0f} s: restart the server")
    return f"looked for work {beat_age:.1f} s ago"


def _probe(session: Session) -> None:
    session.merge(Setting(name="probe.readyz", value=now(), updated_at=now()))


class _Asked:
    """A check on a thread of its own, one at a time; its answer is good for a while."""

    def __init__(self, check: Check, kept_seconds: float) -> None:
        self._check, self._kept = check, kept_seconds
        self._answer: Future[str] | None = None
        self._asked_at = 0.0

    async def __call__(self) -> tuple[bool, str]:
        answer = self._answer
        if answer is None or (answer.done() and self._age() > self._kept):
            answer = self._ask()
        while not answer.done():
            if self._age() > LIMIT_SECONDS:
                return False, f"no answer for {self._age():.0f} s: restart the server"
            await asyncio.sleep(0.005)
        error = answer.exception()
        return error is None, str(error) if error else answer.result()

    def _age(self) -> float:
        return time.monotonic() - self._asked_at

    def _ask(self) -> Future[str]:
        answer: Future[str] = Future()
        self._answer, self._asked_at = answer, time.monotonic()

        def run() -> None:
            try:
                answer.set_result(self._check())
            except Exception as error:  # noqa: BLE001  it is the answer
                answer.set_exception(error)

        threading.Thread(target=run, name="readyz", daemon=True).start()
        return answer
