"""The same code on a GPU, where there is one."""

from pathlib import Path

import pytest

from engine.models.registry import with_adapter
from engine.models.worker_engine import WorkerEngine
from engine.types import Answer, ModelRef
from tests.worker.samples import Collector, asks, job, never


def test_answers_and_training_on_a_gpu(base: ModelRef, tmp_path: Path) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("this machine has no NVIDIA GPU that PyTorch can use")
    engine = WorkerEngine(log_dir=tmp_path)
    try:
        assert engine.prepare(base) == "transformers-cuda-bfloat16"
        before: dict[str, Answer] = {}
        engine.generate(base, asks(40), Collector(before), never)
        training = job(tmp_path, base, rows=64, batch_size=16, learning_rate=2e-3)
        result = engine.train(training, lambda step: None, never)
        after: dict[str, Answer] = {}
        worn = with_adapter(base, Path(result.adapter_dir))
        engine.generate(worn, asks(40), Collector(after), never)
    finally:
        engine.close()
    assert result.loss_last < result.loss_first
    assert len(before) == len(after) == 40 and before != after
