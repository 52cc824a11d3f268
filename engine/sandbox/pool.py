"""The warm pool: containers that wait with an interpreter loaded and fork a child for every case."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from engine.sandbox.docker_engine import DockerEngine, SandboxLost
from engine.sandbox.streams import Streams, TooLate

MEMORY = 256 << 20
SECONDS = 10.0
GRACE = 2.0  # beyond a case's own limit before its whole container is ended
LATE = 0.5  # by which the host's own clock may wake late
CASES = 500  # that a container answers before a fresh one takes its place
LIFE = 3600.0
START_SECONDS = 30.0
UIDS = count(100_000, 1_000)  # limits on processes count by user id, across containers
PARENT = Path(__file__).with_name("inside.py")
OUR_FAULT = "lost"
STOPPED = "stopped"


@dataclass(kw_only=True, slots=True, frozen=True)
class Case:
    """Code, and the inputs that its function is called with; or a check that runs beside it."""

    code: str
    entry: str = ""
    inputs: tuple[tuple[Any, ...], ...] = ()
    check: str | None = None
    seconds: float = SECONDS
    memory: int = MEMORY


@dataclass(kw_only=True, slots=True, frozen=True)
class Outcome:
    """How a case ended, and what it sent.

    `status` is done, raised, time, memory, output or "signal N"; "lost" is our own failure and
    "stopped" a case that was not begun, of which no verdict may come. `output` is the text that the
    case sent: lines of JSON if it was honest.
    """

    status: str
    output: str = ""
    left: int = 0  # processes, files and shared memory that it had left behind
    seconds: float = 0.0
    why: str | None = None


class WarmPool:
    """As many containers as cores; `run` answers one case, from any thread."""

    def __init__(self, engine: DockerEngine, size: int, run: str = "-") -> None:
        self._engine, self._run_label = engine, run
        self._idle: queue.SimpleQueue[_Warm | None] = queue.SimpleQueue()
        self._starting = threading.Lock()  # one start in flight: more at once slow each other down
        self.size = size
        for _ in range(size):
            self._idle.put(None)

    def receipt(self) -> dict[str, str]:
        """How its cases are isolated, to be kept with their scores: see docker_engine.Receipt."""
        return asdict(self._engine.receipt("warm"))

    def run(self, case: Case) -> Outcome:
        """Answer a case; one that is lost through us is tried once more in a fresh container."""
        outcome = self._once(case)
        return self._once(case, fresh=True) if outcome.status == OUR_FAULT else outcome

    def run_all(
        self, cases: Sequence[Case], stop: Callable[[], bool] = lambda: False
    ) -> list[Outcome]:
        """Answer many cases, as many at once as there are containers, until `stop` says so."""

        def answer(case: Case) -> Outcome:
            return Outcome(status=STOPPED) if stop() else self.run(case)

        with ThreadPoolExecutor(self.size) as threads:
            return list(threads.map(answer, cases))

    def close(self) -> None:
        """Remove every container."""
        for _ in range(self.size):
            warm = self._idle.get()
            if warm is not None:
                warm.remove()

    def _once(self, case: Case, fresh: bool = False) -> Outcome:
        with self._container() as slot:
            if slot.warm is not None and (fresh or slot.warm.spent):
                slot.warm.remove()
                slot.warm = None
            try:
                slot.warm = slot.warm or self._fresh()
                outcome = slot.warm.answer(case)
            except SandboxLost as lost:
                outcome = Outcome(status=OUR_FAULT, why=str(lost))
            if slot.warm is not None and _violates(outcome):
                slot.warm.remove()
                slot.warm = None
            return outcome

    @contextmanager
    def _container(self) -> Iterator["_Slot"]:
        slot = _Slot(warm=self._idle.get())
        try:
            yield slot
        finally:
            self._idle.put(slot.warm)

    def _fresh(self) -> "_Warm":
        with self._starting:
            return _Warm(self._engine, self._run_label)


@dataclass(slots=True)
class _Slot:
    warm: "_Warm | None"


class _Warm:
    """One container with its parent process inside."""

    def __init__(self, engine: DockerEngine, run: str) -> None:
        self._engine = engine
        source = PARENT.read_text()
        command = ["python3", "-I", "-S", "-u", "-c", source, str(next(UIDS))]
        self._id = engine.create("warm", command, run, LIFE + START_SECONDS)
        self._streams: Streams | None = None
        self._since, self._answered = time.monotonic(), 0
        try:
            self._streams = Streams(engine.start(self._id))
            self._streams.receive(START_SECONDS)
        except (SandboxLost, TooLate) as error:
            self.remove()
            raise SandboxLost(f"a sandbox did not start: {error}") from None

    @property
    def spent(self) -> bool:
        """Whether it has done its part."""
        return self._answered >= CASES or time.monotonic() - self._since > LIFE

    def answer(self, case: Case) -> Outcome:
        """Hand the case in and wait; the host's own clock ends a container that does not answer."""
        assert self._streams is not None
        self._answered += 1
        began = time.monotonic()
        self._streams.send(
            {
                "code": case.code,
                "entry": case.entry,
                "inputs": case.inputs,
                "check": case.check,
                "seconds": case.seconds,
                "memory": case.memory,
            }
        )
        try:
            return Outcome(**self._streams.receive(case.seconds + GRACE))
        except TooLate:
            # When it is the engine that hangs, this is a SandboxLost too.
            if self._engine.state(self._id)["Paused"]:
                raise SandboxLost("the container was held still from outside") from None
            seconds = time.monotonic() - began
            if seconds > case.seconds + GRACE + LATE:
                raise SandboxLost("this machine stood still") from None
            return Outcome(status="time", seconds=seconds, left=1)
        except SandboxLost:
            return self._ended(time.monotonic() - began)

    def _ended(self, seconds: float) -> Outcome:
        """The container went away under a case: out of memory is the case's doing, else ours."""
        if self._engine.state_at_end(self._id)["OOMKilled"]:
            return Outcome(status="memory", seconds=seconds, left=1)
        raise SandboxLost("the container ended in the middle of a case")

    def remove(self) -> None:
        """End it with everything inside."""
        if self._streams is not None:
            self._streams.close()
        self._engine.remove(self._id)


def _violates(outcome: Outcome) -> bool:
    """Whether a container is not to be used again after this."""
    return outcome.status not in ("done", "raised") or outcome.left > 0
