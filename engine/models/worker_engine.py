"""The engine that answers and trains in the worker process of one device, without torch here."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engine.children import ChildInfo
from engine.errors import Interrupted, OutOfMemory, RequestRefused, WorkerLost
from engine.models.worker_link import STOP_SECONDS, WORKER, StepWatch
from engine.models.worker_process import Handler, NoMemory, WorkerProcess
from engine.types import (
    Answer,
    Ask,
    LabelAsk,
    ModelRef,
    Stop,
    TrainJob,
    TrainProgress,
    TrainResult,
)

log = logging.getLogger(__name__)

SHARES = (1.0, 0.5, 0.25)


class WorkerEngine:
    """Answers and trains through one worker process, started when it is first needed.

    A worker that ends, or stalls and is ended, is replaced once in a call, which goes on from what
    is done. When memory runs out the work is tried again by a fresh worker with half as much at
    once, three times in all, with the same arithmetic. One call runs at a time; others wait for it.
    """

    simulated = False

    def __init__(
        self,
        *,
        log_dir: Path,
        precision: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        stall_seconds: float | None = None,
        record_child: Callable[[ChildInfo], None] = lambda info: None,
        forget_child: Callable[[ChildInfo], None] = lambda info: None,
        command: Sequence[str] = WORKER,
    ) -> None:
        """`precision` None: measured at the first load, then kept; see `prepare`.

        `stall_seconds` None: 600, or 20 times the median training step where that is longer.
        """
        self._turn = threading.Lock()
        self._closed = False
        self.process = WorkerProcess(
            log_file=log_dir / "worker.log",
            precision=precision,
            device=device,
            threads=threads,
            stall_seconds=stall_seconds,
            record_child=record_child,
            forget_child=forget_child,
            command=command,
            closed=lambda: self._closed,
        )

    @property
    def name(self) -> str:
        """Such as "transformers-cpu-float32"; complete once `prepare` or another call has loaded."""
        process = self.process
        kind = (process.device or "unknown").partition(":")[0]  # every card of a machine is alike
        return f"transformers-{kind}-{process.precision or 'unmeasured'}"

    @property
    def pid(self) -> int | None:
        """Process id of the worker, or None while there is none."""
        return self.process.pid

    def is_up(self) -> bool:
        """Whether its process runs."""
        return self.process.is_up()

    def prepare(self, model: ModelRef, stop: Stop = lambda: False) -> str:
        """Load the base, so that device and precision are settled; returns `name`."""
        with _Turn(self, stop):
            self._twice(lambda: self.process.load(model, stop))
        return self.name

    def generate(
        self,
        model: ModelRef,
        asks: Sequence[Ask],
        on_batch: Callable[[list[Answer]], None],
        stop: Stop,
    ) -> None:
        """Answer every ask, handing batches over as they come; Interrupted when `stop` says so."""

        def take(report: dict[str, Any]) -> list[str]:
            answers = [Answer(**fields) for fields in report["answers"]]
            on_batch(answers)
            return [answer.key for answer in answers]

        self._ask_all("generate", model, asks, "answers", take, stop)

    def complete(
        self,
        model: ModelRef,
        wanted: Mapping[str, Any],
        on_piece: Callable[[dict[str, Any]], None],
        stop: Stop,
    ) -> None:
        """Answer one request in pieces (engine/models/complete.py has both); WorkerLost when the
        worker ended meanwhile, since what was told cannot be taken back."""
        refused: list[dict[str, Any]] = []
        handlers: dict[str, Handler] = {
            "piece": lambda report: on_piece(report["piece"]),
            "refused": refused.append,
        }
        with _Turn(self, stop):
            self.process.call(
                model, "complete", {"wanted": dict(wanted), "model": asdict(model)}, handlers, stop
            )
        for report in refused:
            raise RequestRefused(report["text"], report["code"])

    def read_labels(
        self, model: ModelRef, asks: Sequence[LabelAsk], stop: Stop
    ) -> list[dict[str, float]]:
        """For each ask, in order, the log probability that its answer begins with each label.

        RequestRefused where a label cannot be told apart; Interrupted when `stop` says so.
        """
        found: dict[str, dict[str, float]] = {}

        def take(report: dict[str, Any]) -> list[str]:
            found.update(report["read"])
            return list(report["read"])

        self._ask_all("read_labels", model, asks, "labels", take, stop)
        return [found[ask.key] for ask in asks]

    def train(
        self, job: TrainJob, on_progress: Callable[[TrainProgress], None], stop: Stop
    ) -> TrainResult:
        """Train an adapter; resumes from `job.state_dir`; Interrupted when `stop` says so.

        The report after a worker was replaced says so in its note.
        """
        results: list[TrainResult] = []
        lost: list[str] = []
        watch = StepWatch()

        def step(report: dict[str, Any]) -> None:
            progress = TrainProgress(**report["progress"])
            watch.saw(progress)
            notes = [*lost, *filter(None, [progress.note])]
            lost.clear()
            on_progress(replace(progress, note="; ".join(notes) or None))

        def trained(report: dict[str, Any]) -> None:
            results.append(TrainResult(**report["result"]))

        def attempt(rows: float) -> None:
            fields = {"job": asdict(job), "part_rows": int(rows)}
            handlers = {"step": step, "trained": trained}
            self._twice(
                lambda: self.process.call(job.model, "train", fields, handlers, stop, watch.limit),
                lost.append,
            )

        batch = min(job.settings.rows_at_once or job.settings.batch_size, job.settings.batch_size)
        with _Turn(self, stop):
            sizes = [float(batch // part) for part in (1, 2, 4) if batch // part]
            self._smaller_each_time(attempt, sizes, "rows at once")
        return results[-1]

    def close(self, seconds: float = STOP_SECONDS + 5) -> None:
        """End the worker; a call under way ends as Interrupted, for which it has `seconds`."""
        self._closed = True
        got_turn = self._turn.acquire(timeout=seconds)
        try:
            self.process.end(gently=got_turn)
        finally:
            if got_turn:
                self._turn.release()

    def rest(self) -> bool:
        """End the worker unless a call is under way; the next call starts another."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            self.process.end(gently=True)
        finally:
            self._turn.release()
        return True

    def _ask_all(
        self,
        do: str,
        model: ModelRef,
        asks: Sequence[Ask | LabelAsk],
        word: str,
        take: Callable[[dict[str, Any]], list[str]],
        stop: Stop,
    ) -> None:
        """Have every ask answered by reports of that word; `take` says which asks one answers."""
        left = {ask.key: ask for ask in asks}
        if len(left) != len(asks):
            raise ValueError("two asks have the same key")
        refused: list[dict[str, Any]] = []

        def done(report: dict[str, Any]) -> None:
            for key in take(report):
                left.pop(key, None)

        def ask(share: float) -> None:
            if left:
                plain = [asdict(ask) for ask in left.values()]
                fields = {"model": asdict(model), "asks": plain, "share": share}
                handlers: dict[str, Handler] = {word: done, "refused": refused.append}
                self.process.call(model, do, fields, handlers, stop)

        with _Turn(self, stop):
            self._smaller_each_time(
                lambda share: self._twice(lambda: ask(share)), SHARES, "of the usual batch"
            )
        for report in refused:
            raise RequestRefused(report["text"], report["code"])

    def _twice(
        self, call: Callable[[], None], tell: Callable[[str], None] = lambda text: None
    ) -> None:
        """Make a call; once more, with a new worker, when it lost its worker."""
        try:
            return call()
        except WorkerLost as error:
            log.warning("%s", error)
            tell(f"{error}; a new one goes on")
        try:
            call()
        except WorkerLost as error:
            raise WorkerLost(f"{error}, twice; its log is {self.process.log_file}") from None

    def _smaller_each_time(
        self, attempt: Callable[[float], None], sizes: Sequence[float], unit: str
    ) -> None:
        reasons = []
        for size in sizes:
            try:
                return attempt(size)
            except NoMemory as error:
                self.process.end()
                reasons.append(f"{size:g} {unit}: {error}")
        raise OutOfMemory(
            f"memory ran out {len(sizes)} times ({'; '.join(reasons)}): "
            "use a smaller model, shorter rows or a machine with more memory"
        )


class _Turn:
    """Waits for the engine's turn, and gives up when a stop is asked for meanwhile."""

    def __init__(self, engine: WorkerEngine, stop: Stop) -> None:
        self._engine, self._stop = engine, stop

    def __enter__(self) -> None:
        while not self._engine._turn.acquire(timeout=0.2):
            if self._stop() or self._engine._closed:
                raise Interrupted("stopped while waiting for the worker")
        if self._engine._closed:
            self._engine._turn.release()
            raise Interrupted("the engine is closed")

    def __exit__(self, *error: object) -> None:
        self._engine._turn.release()
