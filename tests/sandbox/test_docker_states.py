"""A Docker engine that cannot be used is told apart by its own words, and leaves nothing open."""

import gc
import socket
import warnings
from pathlib import Path

import pytest

from engine.sandbox.docker_engine import SandboxUnavailable, connect


def refusal(monkeypatch: pytest.MonkeyPatch, host: str) -> str:
    """What is said of the engine at an address; a socket left open is a failure."""
    monkeypatch.setenv("DOCKER_HOST", host)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SandboxUnavailable) as refused:
            connect()
        said = str(refused.value)
        del refused
        gc.collect()
    return said


def test_no_engine_is_there(monkeypatch, tmp_path: Path):
    said = refusal(monkeypatch, f"unix://{tmp_path}/docker.sock")
    assert "No such file" in said and "install Docker" in said


def test_an_engine_that_is_down_left_its_socket(monkeypatch, tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "docker.sock"))
    said = refusal(monkeypatch, f"unix://{tmp_path}/docker.sock")
    assert "refused" in said and "start it" in said
