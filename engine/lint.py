"""What is wrong with a recipe before it trains: could its adapter be served, does it fit here.

Cheap: reads the base's config.json and manifest, no weights, no torch. What vLLM serves is as of
vLLM 0.32: plain LoRA on linear layers, up to rank 512, and on the fused experts of some models.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from data.files import read_manifest
from engine.device import find_device
from engine.errors import StepFailed
from engine.models import simulated
from engine.models.bits import why_not
from engine.models.door import OTHER_SCALES
from engine.models.memory import MemoryNeed, size, training_need
from engine.models.shapes import read_shape
from engine.types import LoraSettings, ModelRef

LARGEST_RANK = 512
UNSERVED = {
    "modules_to_save": "whole layers beside the adapter",
    "use_dora": "DoRA adapters",
    "lora_bias": "biases in an adapter",
    "bias": "trained biases",
    "layer_replication": "replicated layers",
    "use_qalora": "QALoRA adapters",
    "use_bdlora": "block-diagonal adapters",
    "alora_invocation_tokens": "adapters that a token switches on",
}
WHOLE = ("lm_head", "embed_tokens", "wte", "embed_out")
EXPERTS = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}
SERVED_EXPERTS = ("qwen3_5_moe", "qwen3_5_moe_text", "qwen3_vl_moe", "qwen3_vl_moe_text")


@dataclass(kw_only=True, slots=True, frozen=True)
class Place:
    """Where a recipe is to train: device, precision, and the bytes of memory that are there."""

    device: str
    precision: str
    memory: int | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class Finding:
    """What a lint says: reasons to refuse, and what people should know all the same."""

    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    need: MemoryNeed | None = None


def lint_recipe(given: Mapping[str, Any], base: Path | None, place: Place) -> Finding:
    """Look at the [lora] table of a preset, for a base model's folder where it is known.

    Every refusal names the setting and says what to do.
    """
    unserved = [
        f"lora.{name}: vLLM cannot serve {what}, so the adapter could not be deployed: leave it out"
        for name, what in UNSERVED.items()
        if given.get(name) not in (None, False, "none", [], {})
    ]
    known = {one.name for one in fields(LoraSettings)}
    strange = sorted(set(given) - known - set(UNSERVED))
    unserved += [f"lora.{name}: no such setting; there are {sorted(known)}" for name in strange]
    settings = replace(LoraSettings(), **{k: v for k, v in given.items() if k in known})
    refusals = [*unserved, *_numbers(settings), *_bits(settings, place)]
    if base is None:
        return Finding(refusals=(*refusals, *_parts(settings, None, None)))
    config, linears = read_base(base)
    refusals += [*_parts(settings, config, linears), *_head(config)]
    context = int(config.get("max_position_embeddings") or settings.max_length)
    if "max_length" in given:  # the usual bound is cut to the context by itself
        refusals += _length(settings, context)
    settings = replace(settings, max_length=min(settings.max_length, context))
    need, told, too_much = _memory(settings, config, place)
    return Finding(refusals=(*refusals, *too_much), notes=tuple(told), need=need)


def faults_of(
    models: Path, device: Callable[[], str], base_model: str, config: Mapping[str, Any]
) -> list[str]:
    """Why a run of this configuration must not begin; empty when it may."""
    if base_model in simulated.MODELS:
        return []
    folder = models / base_model
    place = Place(device=device(), precision="bfloat16")
    there = (folder / "config.json").is_file()  # the embedded one is made on first use
    found = lint_recipe(config.get("lora") or {}, folder if there else None, place)
    return list(found.refusals)


def check_training(settings: LoraSettings, model: ModelRef, what: str) -> None:
    """StepFailed, before anything is measured or trained, when a training must not begin."""
    if model.base in simulated.MODELS:
        return
    base = Path(model.path)
    there = (base / "config.json").is_file()
    place = Place(device=find_device().name, precision="bfloat16")
    found = lint_recipe(chosen(settings), base if there else None, place)
    if found.refusals:
        raise StepFailed(f"{what}: {'; '.join(found.refusals)}")


def chosen(settings: LoraSettings) -> dict[str, Any]:
    """What of the settings is not as usual, as a preset would give it."""
    usual = LoraSettings()
    return {
        one.name: getattr(settings, one.name)
        for one in fields(settings)
        if getattr(settings, one.name) != getattr(usual, one.name)
    }


def read_base(base: Path) -> tuple[dict[str, Any], Sequence[str] | None]:
    """A base's config.json, its text part on top, and its linear layers where they were noted."""
    config: dict[str, Any] = json.loads((base / "config.json").read_bytes())
    try:
        linears = read_manifest(base)["about"].get("linears")
    except ValueError:
        linears = None
    return {**config, **(config.get("text_config") or {})}, linears


def _numbers(settings: LoraSettings) -> list[str]:
    least = {
        "rank": settings.rank,
        "alpha": settings.alpha,
        "batch_size": settings.batch_size,
        "max_length": settings.max_length,
        "rows_at_once": settings.rows_at_once or 1,
    }
    wrong = [
        f"lora.{name}: give 1 or more, not {value}" for name, value in least.items() if value < 1
    ]
    if settings.rank > LARGEST_RANK:
        wrong.append(
            f"lora.rank: vLLM serves adapters up to rank {LARGEST_RANK}, not {settings.rank}"
        )
    if not 0 <= settings.dropout < 1:
        wrong.append(f"lora.dropout: give a share from 0 to below 1, not {settings.dropout}")
    if not settings.learning_rate > 0:
        wrong.append(f"lora.learning_rate: give more than 0, not {settings.learning_rate}")
    return wrong


def _bits(settings: LoraSettings, place: Place) -> list[str]:
    why = why_not(settings.quantize, place.device)
    return [why] if why else []


def _parts(
    settings: LoraSettings, config: Mapping[str, Any] | None, linears: Sequence[str] | None
) -> list[str]:
    """Layers that an adapter is put on and could not be served on, or that are not there."""
    wrong = [
        f"lora.target_modules: an adapter on {name} could not be served: leave it out"
        for name in settings.target_modules
        if name in WHOLE
    ]
    if linears is None and config is not None:
        linears = sorted({one.name for one in read_shape(config).linears if not one.fused})
    lost = [name for name in settings.target_modules if name not in (*(linears or ()), *WHOLE)]
    if linears is not None and lost:
        wrong.append(
            f"lora.target_modules: this base has no layer {', '.join(lost)}; it has "
            f"{', '.join(linears)}"
        )
    return wrong + (_experts(settings, config) if settings.target_parameters else [])


def _experts(settings: LoraSettings, config: Mapping[str, Any] | None) -> list[str]:
    asked = set(settings.target_parameters)
    if asked != EXPERTS:
        both = ", ".join(sorted(EXPERTS))
        return [f"lora.target_parameters: experts are served with both of {both}, or with neither"]
    wrong = []
    if settings.dropout:
        wrong.append("lora.dropout: adapters on experts cannot have one: leave it out")
    kind = str((config or {}).get("model_type", ""))
    if config is not None and kind not in SERVED_EXPERTS:
        wrong.append(
            f"lora.target_parameters: vLLM cannot serve adapters on the experts of a {kind}: leave "
            "it out, which trains attention and shared layers"
        )
    return wrong


def _length(settings: LoraSettings, context: int) -> list[str]:
    if settings.max_length <= context:
        return []
    text = (
        f"lora.max_length: rows of {settings.max_length} tokens do not fit the base's context of "
        f"{context}: give {context} or less"
    )
    return [text]


def _head(config: Mapping[str, Any]) -> list[str]:
    used = [name for name in OTHER_SCALES if config.get(name)]
    return (
        [f"the base scales its logits ({used[0]}), which training here cannot do"] if used else []
    )


def _memory(
    settings: LoraSettings, config: Mapping[str, Any], place: Place
) -> tuple[MemoryNeed | None, list[str], list[str]]:
    """The need, what is told of it, and a refusal where not even one row at once fits."""

    def need(rows: int | None) -> MemoryNeed:
        return training_need(
            config, settings, device=place.device, precision=place.precision, rows=rows
        )

    try:
        usual, least = need(None), need(1)
    except ValueError as unknown:
        return None, [f"how much memory it needs cannot be told: {unknown}"], []
    told = [f"needs at most {usual}"]
    if place.memory is None:
        return usual, told, []
    there = f"{place.device} has {size(place.memory)}"
    if least.total > place.memory:
        text = (
            f"memory: one row at once needs {size(least.total)}, and {there}: {_smaller(settings)}"
        )
        return usual, told, [text]
    if usual.total > place.memory:
        told.append(
            f"{there}: rows as long as lora.max_length would not fit all at once; set "
            "lora.rows_at_once lower, or let the worker halve it when memory runs out"
        )
    return usual, told, []


def _smaller(settings: LoraSettings) -> str:
    ways = [
        "" if settings.gradient_checkpointing else "gradient_checkpointing = true",
        "" if settings.quantize else 'quantize = "4bit" (NVIDIA)',
        "a lower max_length",
        "a smaller base",
    ]
    return "try " + ", ".join(way for way in ways if way)
