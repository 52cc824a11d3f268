"""What the engine lends to the doors for calls whose callers wait: its shape, and its errors in ours."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from app.errors import ServiceError

Left = Callable[[], bool]


class Completions(Protocol):
    """Answers of deployed versions; `job` is an inference job's id, bodies are OpenAI's.

    `route` is "chat/completions" or "completions".
    """

    def ask(
        self, job: str, route: str, body: Mapping[str, Any], actor: str, left: Left
    ) -> dict[str, Any]:
        """The whole answer; a version that sleeps is woken and waited for.

        `left` says whether the caller has gone, for whom nothing more is written then.
        """
        ...

    def stream(
        self, job: str, route: str, body: Mapping[str, Any], actor: str
    ) -> Iterator[dict[str, Any]]:
        """The answer in chunks; closing the iterator ends it. The first is there on return."""
        ...


class Lent:
    """A port whose errors come out as refusals of the service; `refusals` says which as which."""

    def __init__(
        self, port: Completions, refusals: Mapping[type[Exception], type[ServiceError]]
    ) -> None:
        self._port, self._refusals = port, refusals

    def ask(
        self, job: str, route: str, body: Mapping[str, Any], actor: str, left: Left
    ) -> dict[str, Any]:
        """The whole answer."""
        with self.translated():
            return self._port.ask(job, route, body, actor, left)

    def stream(self, job: str, route: str, body: Mapping[str, Any], actor: str) -> "Chunks":
        """The answer in chunks."""
        with self.translated():
            return Chunks(self._port.stream(job, route, body, actor), self)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Lets the port's errors out as refusals."""
        try:
            yield
        except tuple(self._refusals) as error:
            kinds = self._refusals.items()
            refusal = next(theirs for kind, theirs in kinds if isinstance(error, kind))
            raise refusal(str(error), getattr(error, "code", None)) from None


class Chunks:
    """An answer in chunks as they come; `close` ends it, from any thread."""

    def __init__(self, chunks: Iterator[dict[str, Any]], lent: Lent) -> None:
        self._chunks, self._lent = chunks, lent

    def __iter__(self) -> "Chunks":
        return self

    def __next__(self) -> dict[str, Any]:
        with self._lent.translated():
            return next(self._chunks)

    def close(self) -> None:
        """End the generation; nothing after the end."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()
