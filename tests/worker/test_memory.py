"""What a training takes of memory is measured in the worker, and given back when nobody needs it."""

from pathlib import Path

from data.memory import memory
from engine.models.worker_engine import WorkerEngine
from engine.neighbours import resident
from engine.types import ModelRef
from tests.worker.samples import job, never


def test_a_training_says_what_it_took_and_an_idle_worker_can_rest(
    tiny: ModelRef, tmp_path: Path
) -> None:
    engine = WorkerEngine(log_dir=tmp_path, precision="float32", device="cpu", threads=1)
    try:
        engine.prepare(tiny)
        loaded, first = resident(engine.pid or 0), engine.pid
        done = engine.train(job(tmp_path / "one", tiny, rows=8), lambda step: None, never)
        assert done.peak_on == "cpu" and done.peak_bytes is not None
        assert loaded <= done.peak_bytes < min(loaded + 2_000_000_000, memory()[0])
        assert engine.rest() and engine.pid is None
        assert first is not None and not Path(f"/proc/{first}").exists()
    finally:
        engine.close()
