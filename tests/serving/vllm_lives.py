"""vLLM for the tests: where it is, its processes, and what they are doing."""

import os
from pathlib import Path

import pytest

from data.engines import find_vllm


def vllm_python() -> Path:
    """The interpreter that PAWL_VLLM names; skips loudly where none is installed."""
    found = find_vllm(Path(os.environ["PAWL_HOME"]))
    if found is None or not found.is_file():
        command = "python3 run.py install vllm --to DIR, then PAWL_VLLM=DIR/bin/python"
        pytest.skip(f"NO vLLM ON THIS MACHINE, so nothing of it is tested: {command}")
    return found


def group_of(leader: int) -> list[int]:
    """The processes of a group that have not ended; those that wait to be reaped have."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue
        state, _, group = text[text.rindex(")") + 2 :].split()[:3]
        if int(group) == leader and state not in "ZX":
            found.append(int(folder.name))
    return found


def cpu_seconds(pids: list[int]) -> float:
    """Processor time that these processes have used."""
    ticks = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:  # it has ended
            continue
        fields = text[text.rindex(")") + 2 :].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
