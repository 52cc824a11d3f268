"""What runs share on a machine: base models found once, and the one worker."""

import threading
from collections.abc import Callable
from pathlib import Path

from sqlmodel import Session, col, select

from data.home import Home
from data.store import Store
from data.tables import Child, now
from engine.children import ChildInfo
from engine.models import simulated
from engine.models.registry import EMBEDDED, ensure_embedded, find_base
from engine.models.worker_engine import WorkerEngine
from engine.precision import keep_precision, kept_precision
from engine.types import ModelEngine, ModelRef, Stop


class BaseModels:
    """Base models by name. Each is verified whole at first use, and again when a file has changed."""

    def __init__(self, home: Home, gguf: Path | None, gguf_sha256: str | None = None) -> None:
        self._home, self._gguf, self._gguf_sha256 = home, gguf, gguf_sha256
        self._found: dict[str, tuple[object, ModelRef]] = {}

    def __call__(self, name: str) -> ModelRef:
        """The model of that name; the embedded one is made on first use, and when it is broken."""
        if name in simulated.MODELS:
            return simulated.model_ref()
        if name not in self._found or self._found[name][0] != self._looks(name):
            model = self._find(name)
            self._found[name] = self._looks(name), model
        return self._found[name][1]

    def _find(self, name: str) -> ModelRef:
        if name == EMBEDDED and self._gguf is not None:
            return ensure_embedded(self._home.models, self._gguf, self._gguf_sha256)
        return find_base(self._home.models, name)

    def _looks(self, name: str) -> list[tuple[str, int, int]]:
        """Size and time of every file of a model: cheap to look at, other after any accident."""
        files = sorted(path for path in (self._home.models / name).rglob("*") if path.is_file())
        found = [(path, path.stat()) for path in files]
        return [(path.name, stat.st_size, stat.st_mtime_ns) for path, stat in found]


class Worker:
    """The worker of this server's device, made when a run first needs it."""

    def __init__(self, store: Store, home: Home, device: Callable[[], str]) -> None:
        """`device` says where to train as of now; a change acts once a call under way has ended."""
        self._store, self._home, self._choose = store, home, device
        self._lock = threading.Lock()
        self._device = ""  # that of the engine
        self._engine: WorkerEngine | None = None

    def ready(self, base: ModelRef, stop: Stop) -> ModelEngine:
        """The worker with a base loaded, at the precision measured as the faster on this device."""
        engine = self._get()
        engine.prepare(base, stop)
        if engine.process.precision not in (None, kept_precision(self._home.path, self._device)):
            keep_precision(self._home.path, self._device, engine)
        return engine

    def _get(self) -> WorkerEngine:
        device = self._choose()
        with self._lock:
            if self._engine is not None and device != self._device and self._engine.rest():
                self._engine = None
            if self._engine is None:
                record, forget = child_records(self._store, "worker")
                self._device = device
                self._engine = WorkerEngine(
                    log_dir=self._home.logs,
                    device=self._device,
                    precision=kept_precision(self._home.path, self._device),
                    record_child=record,
                    forget_child=forget,
                )
            return self._engine

    def device(self) -> str:
        """Where it trains as of now, by torch's name."""
        return self._choose()

    def rest(self) -> None:
        """End the worker's process while nobody needs it, so that its memory is free."""
        with self._lock:
            if self._engine is not None:
                self._engine.rest()

    def close(self, seconds: float) -> None:
        """End the worker's process; a call under way has `seconds` to leave by itself."""
        with self._lock:
            if self._engine is not None:
                self._engine.close(seconds)


Recorder = Callable[[ChildInfo], None]


def child_records(store: Store, purpose: str) -> tuple[Recorder, Recorder]:
    """Two functions that note a child's start and its end, so that no later start overlooks it."""

    def record(info: ChildInfo) -> None:
        child = Child(
            pid=info.pid,
            pgid=info.pgid,
            started=str(info.started),
            command=info.command,
            purpose=purpose,
        )
        store.write(lambda s: s.add(child))

    def forget(info: ChildInfo) -> None:
        def change(s: Session) -> None:
            query = select(Child).where(Child.pid == info.pid, col(Child.ended_at).is_(None))
            for child in s.exec(query):
                child.ended_at = now()
                s.add(child)

        store.write(change)

    return record, forget
