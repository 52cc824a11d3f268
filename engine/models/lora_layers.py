"""The LoRA layers that a training puts into a base, with the config that is kept of them."""

import warnings
from typing import Any

from engine.errors import ModelUnavailable, StepFailed
from engine.models.weights import Loaded
from engine.types import LoraSettings


def add_lora(loaded: Loaded, settings: LoraSettings) -> tuple[Any, dict[str, Any]]:
    """The base with fresh float32 LoRA layers in the chosen linear layers, and its config.

    The config is what PEFT and vLLM read, without paths or library versions, so that equal training
    gives equal files.
    """
    from peft import LoraConfig, get_peft_model

    _check_head(loaded)
    _check_targets(loaded, settings)
    asked = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.target_modules) or "all-linear",
        target_parameters=list(settings.target_parameters) or None,
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        # PEFT still asks transformers for an attribute under its former name.
        warnings.simplefilter("ignore", FutureWarning)
        wrapped: Any = get_peft_model(loaded.model, asked)
    wrapped.train()
    more = {"target_parameters": sorted(settings.target_parameters)}
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": settings.rank,
        "lora_alpha": settings.alpha,
        "lora_dropout": settings.dropout,
        "target_modules": sorted(wrapped.peft_config["default"].target_modules),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    return wrapped, config | (more if settings.target_parameters else {})


def _check_head(loaded: Loaded) -> None:
    # Losses are computed from hidden states and the output matrix: right only without a scaling.
    scalings = ("final_logit_softcapping", "logit_scale", "logits_scaling")
    used = [name for name in scalings if getattr(loaded.model.config, name, None)]
    if used:
        raise ModelUnavailable(f"{loaded.name} scales its logits ({used[0]}), not supported yet")


def _check_targets(loaded: Loaded, settings: LoraSettings) -> None:
    # PEFT passes over a name that is nowhere as long as another one is somewhere.
    there = {name.rpartition(".")[2] for name, _ in loaded.model.named_modules()}
    lost = [name for name in settings.target_modules if name not in there]
    if lost:
        raise StepFailed(f"lora.target_modules: {loaded.name} has no layer {', '.join(lost)}")
