"""The embedded model in this process and in a worker, for the worker's tests."""

from collections.abc import Iterator

import pytest

from engine.models.weights import Loaded, load_base
from engine.models.worker_engine import WorkerEngine
from engine.types import ModelRef


@pytest.fixture(scope="session")
def loaded(base: ModelRef) -> Loaded:
    """The embedded model in this process, in float32, with one thread."""
    import torch

    torch.set_num_threads(1)
    return load_base(base, "float32", "cpu")


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerEngine]:
    """A worker in float32, shared by the tests that leave it well."""
    engine = WorkerEngine(log_dir=tmp_path_factory.mktemp("logs"), precision="float32", threads=2)
    yield engine
    engine.close()
