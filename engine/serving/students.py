"""Who answers for a base model in a phase: the worker, or vLLM with the worker to train."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from data.engines import INSTALL, choose_engine, find_vllm
from data.home import Home
from data.settings import setting
from data.store import Store
from engine.errors import ModelUnavailable
from engine.resources import Worker, child_records
from engine.serving.places import Places
from engine.types import ModelEngine, ModelRef, Stop

if TYPE_CHECKING:
    from engine.serving.vllm_engine import VllmEngine


class Students:
    """The engine that the setting `engine` means here, as it was when this server started.

    A change acts from the next start on: a run keeps one engine while it goes on.
    """

    def __init__(self, store: Store, home: Home, worker: Worker) -> None:
        self._store, self._home, self._worker = store, home, worker
        self._lock = threading.Lock()
        self._vllm: VllmEngine | None = None
        with store.read() as session:
            self._setting = setting(session, "engine")
        self._found: Path | None = find_vllm(home.path)

    def ready(self, base: ModelRef, stop: Stop) -> ModelEngine:
        """The engine, ready to answer; ModelUnavailable when it is to be vLLM and there is none."""
        device = self._worker.device()
        if choose_engine(self._setting, self._found, device != "cpu").engine == "worker":
            return self._worker.ready(base, stop)
        if self._found is None:
            raise ModelUnavailable(
                f"the setting engine is vllm, and it is not installed: {INSTALL}"
            )
        with self._lock:
            if self._vllm is None:
                self._vllm = self._make(self._found, device)
            return self._vllm

    def _make(self, python: Path, device: str) -> "VllmEngine":
        from engine.serving.vllm_engine import VllmEngine
        from engine.serving.vllm_host import vllm_host

        # To the lease it is the worker's: memory of ours that may be given back between two phases.
        record, forget = child_records(self._store, "worker")
        places = Places(train_device=device, serve_device=device)
        host = vllm_host(
            python,
            log_dir=self._home.logs,
            device=device,
            cards=places.visible_cards,
            record_child=record,
            forget_child=forget,
        )
        return VllmEngine(host, self._worker, on_card=device != "cpu")

    def rest(self) -> None:
        """End what nobody needs at the moment, so that its memory is free."""
        self._worker.rest()
        if self._vllm is not None:
            self._vllm.rest()

    def close(self, seconds: float) -> None:
        """End every process; a call under way has `seconds` to leave by itself."""
        if self._vllm is not None:
            self._vllm.close(seconds)
        self._worker.close(seconds)
