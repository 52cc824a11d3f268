"""One call of a deployed version: its usage, added to its hour, and its chunks for whoever may leave."""

import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from sqlmodel import Session, select

from data.store import Store
from data.tables import EndpointUse, Job, now
from engine.errors import EndpointNotReady, RequestRefused
from engine.serving.bodies import CHAT


class Call:
    """Counts itself when it ends; one that was refused does not count."""

    def __init__(self, *, store: Store, job: Job, actor: str, route: str) -> None:
        self._store = store
        self._use = EndpointUse(
            project_id=job.project_id,
            job=job.id,
            hour="",
            actor=actor,
            kind="chat" if route == CHAT else "completion",
            status="answered",
            calls=1,
        )
        self._began = 0.0

    def used(self, usage: Mapping[str, Any]) -> None:
        """What the answer says of its tokens."""
        self._use.tokens_in = int(usage.get("prompt_tokens") or 0)
        self._use.tokens_out = int(usage.get("completion_tokens") or 0)

    def saw(self, chunk: Mapping[str, Any]) -> None:
        """What a chunk says of the tokens so far; one with text is about a token where it says none."""
        use, told = self._use, chunk.get("usage") or {}
        use.tokens_in = int(told.get("prompt_tokens") or use.tokens_in)
        use.tokens_out = int(told.get("completion_tokens") or use.tokens_out + _has_text(chunk))

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, RequestRefused | EndpointNotReady):
            return
        use = self._use
        use.status = "answered" if error is None else "broken"
        use.seconds = time.monotonic() - self._began
        use.last_at = now()
        use.hour = use.last_at[: len("2026-11-30T17")]
        self._store.post(lambda s: _add(s, use))


def _add(s: Session, one: EndpointUse) -> None:
    """Add one call to what its caller has used in that hour."""
    same = ("job", "hour", "actor", "kind", "status")
    where = [getattr(EndpointUse, name) == getattr(one, name) for name in same]
    known = s.exec(select(EndpointUse).where(*where)).first()
    if known is None:
        s.add(one)
        return
    for name in ("calls", "tokens_in", "tokens_out", "seconds"):
        setattr(known, name, getattr(known, name) + getattr(one, name))
    known.last_at = one.last_at
    s.add(known)


def counted(
    chunks: Iterator[dict[str, Any]], call: Call, model: str, wants_usage: bool
) -> Iterator[dict[str, Any]]:
    """Chunks under the version's public name, their usage counted and told only where wanted."""
    for chunk in chunks:
        call.saw(chunk)
        usage = chunk.pop("usage", None)
        if usage and not chunk.get("choices") and not wants_usage:
            continue
        # Only the last chunk, which has no choices, tells callers the usage.
        told = {"usage": None if chunk.get("choices") else usage} if wants_usage else {}
        yield chunk | told | {"model": model}


def _has_text(chunk: Mapping[str, Any]) -> bool:
    choices = chunk.get("choices") or []
    return any(one.get("text") or (one.get("delta") or {}).get("content") for one in choices)


class Chunks:
    """An iterator with its first item fetched, that any thread may close at any time."""

    def __init__(self, chunks: Iterator[dict[str, Any]]) -> None:
        self._chunks = chunks
        self._turn = threading.Lock()
        self._closed = False
        self._first: dict[str, Any] | None = next(chunks, None)

    def __iter__(self) -> "Chunks":
        return self

    def __next__(self) -> dict[str, Any]:
        try:
            with self._turn:
                if self._first is not None:
                    first, self._first = self._first, None
                    return first
                return next(self._chunks)
        finally:
            if self._closed:  # looked at after the turn, so that one of the two ends the answer
                self.close()

    def close(self) -> None:
        """End the answer; when another thread waits for a chunk, as soon as that one is there."""
        self._closed = True
        if self._turn.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._turn.release()

    def _end(self) -> None:
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()
