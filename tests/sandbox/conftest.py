"""A Docker engine with the sandbox image, and a warm pool on it."""

import uuid
from collections.abc import Iterator

import pytest

from engine.sandbox.docker_engine import DockerEngine, SandboxUnavailable
from engine.sandbox.pool import Case, Outcome, WarmPool

PATIENCE = 30.0  # seconds for what ends by itself, on a machine that is busy with other things


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """Skipped where Docker is not there."""
    try:
        engine = DockerEngine(f"test-{uuid.uuid4().hex[:8]}")
    except SandboxUnavailable as missing:
        pytest.skip(str(missing))
    yield engine
    engine.remove_all()
    engine.close()


@pytest.fixture(scope="session")
def pool(docker_engine: DockerEngine) -> Iterator[WarmPool]:
    """Two warm containers."""
    warm = WarmPool(docker_engine, 2)
    yield warm
    warm.close()


def call(code: str, *inputs: tuple, entry: str = "f", seconds: float = PATIENCE) -> Case:
    """A case that calls `f` once without arguments, or once for each tuple of them."""
    return Case(code=code, entry=entry, inputs=inputs or ((),), seconds=seconds)


def run(pool: WarmPool, code: str, *inputs: tuple, seconds: float = PATIENCE) -> Outcome:
    """The outcome of such a case."""
    return pool.run(call(code, *inputs, seconds=seconds))
