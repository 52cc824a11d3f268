"""How much memory a training or a serving needs, from the base's config alone: arithmetic, no torch.

Bytes are those of the device that computes; what allocator and libraries keep beside the arrays is
in `overhead`. Seen on a CPU with 135M parameters and rows of 300 tokens: 4.5 GB where 5.4 are
estimated, and 2.5 where 2.3 are with activations computed again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.models.gradients import LOSS_TOKENS
from engine.models.shapes import ModelShape, read_shape
from engine.types import LoraSettings

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
FOUR_BIT = 0.52  # bytes a weight of NF4 with its scales, themselves quantized, rounded up
LORA_BYTES = 16  # a trained number, its gradient and AdamW's two moments, float32 each
OVERHEAD = {"cpu": 900_000_000, "cuda": 1_500_000_000}  # libraries, kernels' workspaces
FRAGMENTS = 1.1  # arrays of many sizes leave holes between them
PLAIN_TOKENS = 256  # up to this length a CPU keeps whole attention matrices


@dataclass(kw_only=True, slots=True, frozen=True)
class MemoryNeed:
    """The parts of a need, in bytes."""

    weights: int
    adapter: int  # with gradients and optimizer
    activations: int
    logits: int
    overhead: int

    @property
    def total(self) -> int:
        """All of it, with what falls between arrays of many sizes."""
        arrays = self.activations + self.logits
        return self.weights + self.adapter + round(arrays * FRAGMENTS) + self.overhead

    def __str__(self) -> str:
        parts = {
            "weights": self.weights,
            "adapter with optimizer": self.adapter,
            "activations": self.activations,
            "logits": self.logits,
            "libraries": self.overhead,
        }
        told = ", ".join(f"{name} {size(count)}" for name, count in parts.items())
        return f"{size(self.total)} ({told})"


def training_need(
    config_of_base: Mapping[str, Any],
    settings: LoraSettings,
    *,
    device: str = "cuda",
    precision: str = "bfloat16",
    rows: int | None = None,
    length: int | None = None,
    targets: int | None = None,
) -> MemoryNeed:
    """What a training needs when `rows` rows of `length` tokens are computed at once.

    By default those are the settings' own: rows at once, else the batch; the longest row allowed,
    all of it trained, else `targets` tokens of it. Real rows are shorter, so that the need which
    is measured is smaller.
    `config_of_base` is the base's config.json; a ValueError says what it lacks.
    """
    shape = read_shape(config_of_base)
    rows = rows or settings.rows_at_once or settings.batch_size
    length = length or settings.max_length
    tokens = rows * length
    width = BYTES[precision]
    one = _layer_activations(shape, settings, width)
    eager = device == "cpu" and length <= PLAIN_TOKENS
    one_layer = tokens * one + (3 * rows * shape.heads * length**2 * width if eager else 0)
    if settings.gradient_checkpointing:
        kept = shape.layers * tokens * shape.hidden * width + one_layer
    else:
        kept = shape.layers * one_layer
    # Experts with an adapter are computed with a merged copy, which the way back needs too.
    merged = shape.fused_targets(settings) * width
    kept += merged * (3 if settings.gradient_checkpointing else shape.layers + 2)
    losses = rows * (targets or length)
    if settings.gradient_checkpointing:
        losses = min(losses, LOSS_TOKENS)
    return MemoryNeed(
        weights=_weights(shape, settings.quantize, width),
        adapter=LORA_BYTES * shape.lora_parameters(settings),
        activations=kept,
        # As computed, then in float32, with gradients.
        logits=losses * shape.vocabulary * (width + 16),
        overhead=OVERHEAD["cpu" if device == "cpu" else "cuda"],
    )


def serving_need(
    config_of_base: Mapping[str, Any],
    *,
    rows: int,
    length: int,
    device: str = "cuda",
    precision: str = "bfloat16",
) -> MemoryNeed:
    """What answering needs: weights, keys and values of `rows` conversations of `length` tokens."""
    shape = read_shape(config_of_base)
    width = BYTES[precision]
    kept = rows * length * shape.cache_numbers * width
    passing = rows * min(length, 2048) * (shape.hidden * 4 + shape.intermediate * 2) * width
    return MemoryNeed(
        weights=shape.parameters * width,
        adapter=0,  # it is small beside the weights
        activations=kept + passing,
        logits=rows * shape.vocabulary * (width + 4),
        overhead=OVERHEAD["cpu" if device == "cpu" else "cuda"],
    )


def _weights(shape: ModelShape, quantize: str | None, width: int) -> int:
    """Only linear layers are quantized; embeddings, output matrix and fused experts stay."""
    small = shape.layer_parameters if quantize else 0
    return round(small * FOUR_BIT) + (shape.parameters - small) * width


def _layer_activations(shape: ModelShape, settings: LoraSettings, width: int) -> int:
    """Bytes that one layer keeps of one token for the way back.

    Both norms keep their input in float32 beside the residual; attention its queries, keys, values
    and outcome; the feed-forward its two branches and their product. A layer with an adapter keeps
    its input once more, as the float32 that the adapter computes in.
    """
    norms = 2 * shape.hidden * (4 + width) + 2 * shape.hidden * width
    attention = (2 * shape.attention_width + 2 * shape.key_width) * 2 * width
    feed = 4 * shape.active_intermediate * width
    adapters = 4 * shape.adapted_inputs(settings) + 4 * 2 * settings.rank * shape.adapted(settings)
    return norms + attention + feed + adapters


def size(count: float) -> str:
    """Bytes in words of people: "7.4 GB"."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
