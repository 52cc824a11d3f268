"""A Host on the worker: a process of its own beside the one that trains, one answer at a time."""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.children import ChildInfo
from engine.errors import EngineError, HostGone, Interrupted, ModelUnavailable, RequestRefused
from engine.models.worker_engine import WorkerEngine
from engine.serving.answers import Shaper
from engine.serving.bodies import read_request
from engine.types import ModelRef, Stop

Piece = dict[str, Any]
CLOSE_SECONDS = 2.0


class WorkerHost:
    """Answers with the worker's transformers, an adapter merged into the base for each answer.

    Calls are answered one after another, in the order in which they find the worker free.
    """

    def __init__(
        self,
        *,
        log_dir: Path,
        device: str,
        precision: str | None = None,
        measured: Callable[[WorkerEngine], None] = lambda engine: None,
        record_child: Callable[[ChildInfo], None] = lambda info: None,
        forget_child: Callable[[ChildInfo], None] = lambda info: None,
    ) -> None:
        """`precision` None: the faster one, measured at the start, and told to `measured`."""
        self._measured = measured
        self._engine = WorkerEngine(
            log_dir=log_dir,
            device=device,
            precision=precision,
            record_child=record_child,
            forget_child=forget_child,
        )

    @property
    def name(self) -> str:
        """Such as "transformers-cpu-float32"; complete once started."""
        return self._engine.name

    def start(self, base: ModelRef, stop: Stop) -> None:
        """Have the worker up with the base loaded."""
        self._engine.prepare(base, stop)
        self._measured(self._engine)

    def load(self, model: ModelRef) -> None:
        """Put the adapter on once, for one token: a fingerprint shows that it answers."""
        probe = {"prompt": [1], "max_tokens": 1, "temperature": 0.0}
        self._complete(model, probe, lambda piece: None, lambda: False)

    def unload(self, model: ModelRef) -> None:
        """Nothing is kept beside the adapter of the answer under way."""

    def ask(
        self, model: ModelRef, route: str, body: Mapping[str, Any], stop: Stop = lambda: False
    ) -> dict[str, Any]:
        """The whole answer; HostGone when `stop` says that nobody waits for it any more."""
        wanted = read_request(route, body)
        pieces: list[Piece] = []
        self._complete(model, wanted, pieces.append, stop)
        return _shaper(model, route, wanted).whole(pieces)

    def stream(
        self, model: ModelRef, route: str, body: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """The answer in chunks, one for each token that makes text."""
        wanted = read_request(route, body)
        options = body.get("stream_options") or {}
        shaper = _shaper(model, route, wanted)
        return shaper.chunks(self._pieces(model, wanted), bool(options.get("include_usage")))

    def is_up(self) -> bool:
        """Whether the worker's process runs."""
        return self._engine.is_up()

    def close(self) -> None:
        """End the worker; an answer under way has a moment to leave."""
        self._engine.close(CLOSE_SECONDS)

    def _pieces(self, model: ModelRef, wanted: Mapping[str, Any]) -> Iterator[Piece]:
        """Pieces as they come; whoever closes this ends the answer."""
        pieces: queue.SimpleQueue[Piece | Exception | None] = queue.SimpleQueue()
        left = threading.Event()

        def write() -> None:
            try:
                self._complete(model, wanted, pieces.put, left.is_set)
                pieces.put(None)
            except Exception as error:  # noqa: BLE001  somebody waits for the next piece
                pieces.put(error)

        threading.Thread(target=write, name="answer", daemon=True).start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            left.set()

    def _complete(
        self,
        model: ModelRef,
        wanted: Mapping[str, Any],
        tell: Callable[[Piece], None],
        stop: Stop,
    ) -> None:
        try:
            self._engine.complete(model, wanted, tell, stop)
        except (RequestRefused, ModelUnavailable):
            raise
        except Interrupted:
            raise HostGone("the answer was broken off, since its process or caller left") from None
        except EngineError as error:
            raise HostGone(f"{error}; call again, and a new process answers") from None


def _shaper(model: ModelRef, route: str, wanted: Mapping[str, Any]) -> Shaper:
    return Shaper(route=route, model=model.base, told=wanted["logprobs"] is not None)
