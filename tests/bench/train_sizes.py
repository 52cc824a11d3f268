"""The sizes and settings that both sides of the training benchmark share."""

import hashlib
from pathlib import Path

ROWS, QUICK_ROWS = 256, 64
STEPS = 8
HELD_OUT = 64
SEED = 11
RANK, ALPHA = 16, 32
LEARNING_RATE = 3e-4
WARM_UP_STEPS = 3


def sha256_of(adapter: str) -> str:
    """The hash of an adapter's weights."""
    weights = Path(adapter) / "adapter_model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def batch_size(rows: int) -> int:
    """Rows a step, so that each row is trained on once."""
    return rows // STEPS
