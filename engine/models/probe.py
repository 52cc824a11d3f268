"""Which precision a device trains faster in: measured, since CPUs differ in both directions."""

import time
from random import Random

from engine.models.batches import TrainRow
from engine.models.gradients import accumulate
from engine.models.lora_layers import add_lora
from engine.models.weights import PRECISIONS, Loaded, load_base, pick_attention
from engine.types import LoraSettings, ModelRef

ROWS, LENGTH, TARGETS = 4, 32, 4


def load_fastest(ref: ModelRef, device: str) -> tuple[Loaded, dict[str, float]]:
    """The base in the precision with the faster LoRA step, and seconds per step of each tried.

    On a GPU it is bfloat16 without a trial. On a CPU the trial takes one to two seconds.
    """
    if device.startswith("cuda"):
        return load_base(ref, "bfloat16", device), {}
    tried = {}
    for precision in PRECISIONS:
        loaded = load_base(ref, precision, device)
        tried[precision] = (time_step(loaded), loaded)
    fastest = min(PRECISIONS, key=lambda precision: tried[precision][0])
    return tried[fastest][1], {precision: seconds for precision, (seconds, _) in tried.items()}


def time_step(loaded: Loaded) -> float:
    """Seconds of one forward and backward pass over a few short rows, after one to warm up."""
    random = Random(0)
    rows = [
        TrainRow(ids=[random.randrange(3, 1000) for _ in range(LENGTH)], start=LENGTH - TARGETS)
        for _ in range(ROWS)
    ]
    pick_attention(loaded.model, LENGTH)
    wrapped, _ = add_lora(loaded, LoraSettings())
    try:
        accumulate(wrapped, rows, ROWS)
        return min(_timed(wrapped, rows) for _ in range(2))
    finally:
        wrapped.unload()
        loaded.model.eval().requires_grad_(False)


def _timed(wrapped: object, rows: list[TrainRow]) -> float:
    began = time.perf_counter()
    accumulate(wrapped, rows, ROWS)
    return time.perf_counter() - began
