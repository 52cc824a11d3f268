"""Bases of fewer bits a weight: when they can be had, and how they are loaded."""

import importlib.util
from typing import Any

from engine.errors import StepFailed

FOUR_BIT = "4bit"
PACKAGE = "bitsandbytes"


def check_bits(quantize: str | None, device: str) -> None:
    """StepFailed, with what to do, when a base cannot be had in these bits on this device."""
    why = why_not(quantize, device)
    if why:
        raise StepFailed(why)


def why_not(quantize: str | None, device: str) -> str | None:
    """Why a base cannot be had in these bits on this device, with what to do; None when it can."""
    if quantize is None:
        return None
    if quantize != FOUR_BIT:
        return f'lora.quantize is {quantize!r}: give "{FOUR_BIT}", or leave it out'
    if not device.startswith("cuda"):
        return (
            f'lora.quantize = "{FOUR_BIT}" needs an NVIDIA card, and this machine trains on {device}: '
            "leave it out, or take a smaller base model"
        )
    if importlib.util.find_spec(PACKAGE) is None:
        return (
            f'lora.quantize = "{FOUR_BIT}" needs the package {PACKAGE}: '
            f"run .venv/bin/python -m pip install {PACKAGE}, then start again"
        )
    return None


def loading_options(quantize: str, precision: str, device: str) -> dict[str, Any]:
    """What from_pretrained is told: NF4, its scales quantized too, computing in `precision`."""
    import torch
    from transformers import BitsAndBytesConfig

    check_bits(quantize, device)
    config = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=getattr(torch, precision),
    )
    return {"quantization_config": config, "device_map": {"": device}}
