"""The NVIDIA cards of this machine and who uses them, as the driver's own tool tells it."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from data.memory import memory

MIB = 1024 * 1024
SECONDS = 10.0  # the tool wakes a card that sleeps, which takes its time
CARD_FIELDS = "index,uuid,name,memory.total,memory.free"
PROCESS_FIELDS = "gpu_uuid,pid,used_memory"


@dataclass(kw_only=True, slots=True, frozen=True)
class Card:
    """One card with its memory in bytes; `uuid` is the driver's name of it."""

    index: int
    uuid: str
    name: str
    total: int
    free: int


@dataclass(kw_only=True, slots=True, frozen=True)
class CardUse:
    """A process on a card. `bytes` is None where the driver does not tell."""

    uuid: str
    pid: int
    bytes: int | None


def read_cards() -> list[Card]:
    """The cards that this process may use, in the order in which torch counts them."""
    text = _ask(f"--query-gpu={CARD_FIELDS}")
    return visible(parse_cards(text), os.environ) if text else []


def read_uses() -> list[CardUse]:
    """Every computing process on any card, of whoever it is."""
    text = _ask(f"--query-compute-apps={PROCESS_FIELDS}")
    return parse_uses(text) if text else []


def parse_cards(text: str) -> list[Card]:
    """Cards from nvidia-smi's lines; a card that shares main memory states none of its own."""
    cards = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) < 5 or not words[0].isdigit():
            continue  # "No devices were found", or a warning
        index, uuid, *name, total, free = words
        sizes = _bytes(total), _bytes(free)
        whole, left = memory() if None in sizes else sizes
        cards.append(
            Card(
                index=int(index),
                uuid=uuid,
                name=", ".join(name),
                total=whole or 0,
                free=left or 0,
            )
        )
    return cards


def parse_uses(text: str) -> list[CardUse]:
    """Processes from nvidia-smi's lines, without those that it could not tell the number of."""
    uses = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and words[1].isdigit():
            uses.append(CardUse(uuid=words[0], pid=int(words[1]), bytes=_bytes(words[2])))
    return uses


def visible(cards: list[Card], environment: Mapping[str, str]) -> list[Card]:
    """Those of the cards that CUDA_VISIBLE_DEVICES leaves, in its order.

    As in CUDA, the first word that names no card ends the list.
    """
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return cards
    found: list[Card] = []
    for word in chosen.split(","):
        card = next((one for one in cards if is_named(one, word.strip())), None)
        if card is None:
            break
        found.append(card)
    return found


def is_named(card: Card, word: str) -> bool:
    """Whether a word of CUDA_VISIBLE_DEVICES, a number or the start of a UUID, is that card."""
    if word.isdigit():
        return card.index == int(word)
    return bool(word) and word.startswith("GPU-") and card.uuid.startswith(word)


def _bytes(word: str) -> int | None:
    """Mebibytes, perhaps with their unit, in bytes; None for "[N/A]" and its like."""
    digits = word.removesuffix("MiB").strip()
    return int(digits) * MIB if digits.isdigit() else None


def _ask(query: str) -> str | None:
    """What nvidia-smi answers, or None where there is none, or it fails, or it hangs."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout
