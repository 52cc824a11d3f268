"""The device that models run on: the first NVIDIA card, else the CPU. Imports nothing heavy."""

import os
import shutil
import subprocess
from dataclasses import dataclass


@dataclass(kw_only=True, slots=True, frozen=True)
class Device:
    """`name` is what torch calls it, `label` what people do."""

    name: str
    label: str


def find_device() -> Device:
    """The device of this machine."""
    card = _first_card()
    if card is not None:
        return Device(name="cuda", label=card)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Device(name="cpu", label=f"CPU, {cores} cores")


def _first_card() -> str | None:
    if shutil.which("nvidia-smi") is None or os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return None
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    names = found.stdout.splitlines()
    return names[0].strip() if names else None
