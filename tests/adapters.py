"""Adapters as PEFT writes them, made by hand for a base: for tests of taking them in."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.models.adapter_check import base_shapes
from engine.types import ModelRef

MODULES = ("q_proj", "v_proj", "down_proj")
RANK = 4


def lay_adapter(
    folder: Path,
    base: ModelRef,
    *,
    config: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Any] | None = None,
    modules: tuple[str, ...] = MODULES,
    strength: float = 0.3,
    seed: int = 0,
) -> Path:
    """Write an adapter that fits `base` and changes its answers; what is given goes over it.

    A None in `config` or `tensors` takes the entry away.
    """
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    written: dict[str, Any] = {}
    for name, shape in base_shapes(Path(base.path)).items():
        layer = name.removesuffix(".weight")
        if layer.rpartition(".")[2] in modules:
            stem = f"base_model.model.{layer}"
            written[f"{stem}.lora_A.weight"] = torch.randn(RANK, shape[1]) / shape[1] ** 0.5
            written[f"{stem}.lora_B.weight"] = torch.randn(shape[0], RANK) * strength
    folder.mkdir(parents=True)
    save_file(_laid_over(written, tensors), folder / "adapter_model.safetensors")
    plain = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base.base,
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "target_modules": list(modules),
        "bias": "none",
        "use_dora": False,
        "modules_to_save": None,
    }
    (folder / "adapter_config.json").write_text(json.dumps(_laid_over(plain, config)))
    return folder


def _laid_over(entries: dict[str, Any], over: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: one for name, one in {**entries, **(over or {})}.items() if one is not None}
