"""Children are started bare, recognised exactly, and ended with everything they started."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.children import end_child, is_alive, start_child
from tests.waiting import eventually

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_child_sees_only_the_allowed_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "CANARY")
    monkeypatch.setenv("PAWL_SECRET", "CANARY")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    log = tmp_path / "child.log"
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    process, _ = start_child([sys.executable, "-c", code], log)
    assert process.wait(60) == 0
    seen = json.loads(log.read_text())
    assert "CANARY" not in log.read_text()
    assert seen["HF_HUB_OFFLINE"] == "1" and seen["OMP_NUM_THREADS"] == "2"
    allowed = {"PATH", "HOME", "LANG", "TMPDIR", "CUDA_VISIBLE_DEVICES"}
    allowed |= {"CUDA_DEVICE_ORDER", "HF_HUB_OFFLINE", "PYTHONPATH"}
    knobs = ("OMP_", "MKL_", "OPENBLAS_", "LC_")
    assert {name for name in seen if not name.startswith(knobs)} <= allowed


def test_ending_a_child_takes_its_own_children_even_when_it_ignores_the_polite_signal(
    tmp_path: Path,
) -> None:
    log = tmp_path / "child.log"
    process, info = start_child([sys.executable, "-c", STUBBORN], log)
    eventually(lambda: log.read_text().endswith("\n"))
    grandchild = Path(f"/proc/{log.read_text().strip()}")
    assert is_alive(info) and grandchild.exists()
    assert end_child(info, grace_seconds=0.5)
    assert process.wait(60) == -9
    eventually(lambda: not grandchild.exists() or "Z" in _state(grandchild))
    assert not is_alive(info)


def _state(process: Path) -> str:
    try:
        return (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def test_a_process_that_only_has_the_same_number_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    process, info = start_child(command, tmp_path / "child.log")
    eventually(lambda: is_alive(info))
    older = replace(info, started=info.started - 1)
    other = replace(info, command="python -m something.else")
    assert not end_child(older) and not end_child(other)
    assert process.poll() is None
    assert end_child(info)
    process.wait(60)
    assert not end_child(info)
