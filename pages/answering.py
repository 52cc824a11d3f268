"""One answer of a deployed version while it comes in: asked for in a thread, looked at by the page."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from app.errors import ServiceError

Chunk = Mapping[str, Any]


class Chunks(Protocol):
    """An answer as it comes in; `close` ends it, from any thread."""

    def __iter__(self) -> Iterator[Chunk]: ...

    def close(self) -> None: ...


class Answering:
    """Text so far, its tokens and seconds, and how it ended.

    The thread is one of its own: a version that has to be woken may keep it for minutes, and the
    pool that reads for all pages must not wait for that. Only the thread writes, the page reads.
    """

    def __init__(self, open_stream: Callable[[], Chunks]) -> None:
        self.text, self.tokens, self.finish = "", 0, ""
        self.error: str | None = None
        self.over = self.cancelled = False
        self._begun, self._ended = time.monotonic(), 0.0
        self._open_stream = open_stream
        self._chunks: Chunks | None = None
        threading.Thread(target=self._run, name="chat-answer", daemon=True).start()

    @property
    def seconds(self) -> float:
        """How long it took, or takes so far."""
        return (self._ended or time.monotonic()) - self._begun

    def cancel(self) -> None:
        """Take nothing more of it, and end its generation."""
        if self.over:
            return
        self.cancelled, self.over, self._ended = True, True, time.monotonic()
        if self._chunks is not None:
            threading.Thread(target=self._chunks.close, name="chat-cancel", daemon=True).start()

    def _run(self) -> None:
        try:
            self._chunks = self._open_stream()
            self._take(self._chunks)
        except ServiceError as refused:
            self._end(str(refused))
        else:
            self._end(None)
        finally:
            self._end("The answer broke off; the server's log says why.")
            if self._chunks is not None:
                self._chunks.close()

    def _take(self, chunks: Chunks) -> None:
        if self.cancelled:
            return
        for chunk in chunks:
            if self.cancelled:
                return
            self._add(chunk)

    def _add(self, chunk: Chunk) -> None:
        for choice in chunk.get("choices") or ():
            piece = (choice.get("delta") or {}).get("content") or ""
            self.text += piece
            self.tokens += bool(piece)  # about one a piece, until the usage says how many
            self.finish = choice.get("finish_reason") or self.finish
        usage = chunk.get("usage")
        if usage:
            self.tokens = int(usage.get("completion_tokens") or 0)

    def _end(self, error: str | None) -> None:
        if not self.over:
            self.error, self._ended = error, time.monotonic()
            self.over = True
