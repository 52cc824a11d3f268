"""The device that models run on: the first NVIDIA card, else the CPU. Imports nothing heavy."""

import os
from dataclasses import dataclass

from engine.cards import read_cards


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
    return Device(name="cpu", label=cpu_label())


def cpu_label() -> str:
    """The processor in words."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"CPU, {cores} cores"


def _first_card() -> str | None:
    cards = read_cards()
    return cards[0].name if cards else None
