"""Whether an adapter that somebody brings fits a base and can be served; nothing of it is executed.

The name of a base in an adapter's config proves nothing: its tensors are held against the headers
of the base's own weights. Torch is not imported.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.models.registry import PICKLE_STARTS, REFUSED_SUFFIXES, check_safetensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
LARGEST_RANK = 512  # the most that vLLM takes
CONFIG_BYTES = 1024 * 1024
MOST_BRACKETS = 500
CODE_SUFFIXES = (".py", ".so", ".sh", ".exe", ".dll")
# What a plain LoRA may say of itself; everything else in its config must be empty.
PLAIN = {"peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "target_modules", "bias"}
PLAIN |= {"base_model_name_or_path", "revision", "inference_mode", "peft_version", "megatron_core"}
PLAIN |= {"layers_to_transform", "layers_pattern", "exclude_modules", "qalora_group_size"}
PLAIN |= {"init_lora_weights", "auto_mapping", "runtime_config"}
CHANGES_THE_BASE = ("pissa", "olora", "loftq", "corda", "lora_ga")  # ways to begin a training
NOT_SERVED = ("embed_tokens", "lm_head", "wte", "wpe", "router", "gate")  # the last name of a layer
EXPONENTS = {"F32": ("<u4", 0x7F800000), "F16": ("<u2", 0x7C00), "BF16": ("<u2", 0x7F80)}
PIECE = 16 * 1024 * 1024
PREFIX = "base_model.model."


@dataclass(kw_only=True, slots=True, frozen=True)
class AdapterFacts:
    """What was found out about an adapter that fits: `modules` are the last names of its layers."""

    rank: int
    alpha: float
    modules: list[str]
    layers: int
    claims: str  # the base that its config names


def check_adapter(folder: Path, base: Path) -> AdapterFacts:
    """Read an adapter's config and weights, and hold them against a base's folder.

    ValueError says which part is refused, why, and what to do.
    """
    config = _config(folder / CONFIG)
    rank, alpha = _numbers(config)
    check_safetensors(folder / WEIGHTS)
    tensors = read_header(folder / WEIGHTS)
    layers = _pairs(tensors)
    _check_fit(layers, tensors, rank, base)
    modules = sorted({layer.rpartition(".")[2] for layer in layers})
    _check_targets(config.get("target_modules"), modules)
    _check_values(folder / WEIGHTS, tensors)
    claims = str(config.get("base_model_name_or_path") or "")
    return AdapterFacts(rank=rank, alpha=alpha, modules=modules, layers=len(layers), claims=claims)


def check_names(folder: Path) -> list[str]:
    """Names in the folder that are not taken along; ValueError where one is dangerous or missing."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}: name the one that holds {CONFIG}")
    names = sorted(path.name for path in folder.iterdir())
    if not names:
        raise ValueError(f"{folder} is empty: name the folder that holds {CONFIG}")
    for name in names:
        path = folder / name
        if path.suffix in CODE_SUFFIXES:
            raise ValueError(f"{path} is program code: delete it, if you trust the rest")
        if path.suffix in REFUSED_SUFFIXES or (path.is_file() and _is_pickled(path)):
            raise ValueError(
                f"{path} is pickled, which can run code when it is loaded: save the adapter with "
                f"safetensors (PEFT's default), and give a folder without that file"
            )
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} has no {name}: it is not an adapter that PEFT has saved")
    return [name for name in names if name not in (CONFIG, WEIGHTS)]


def _is_pickled(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4).startswith(PICKLE_STARTS)


def read_header(path: Path) -> dict[str, dict[str, Any]]:
    """The tensors of a safetensors file that was checked: dtype, shape and offsets by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: item for name, item in header.items() if name != "__metadata__"}


def _config(path: Path) -> dict[str, Any]:
    config = _read_config(path)
    if "auto_map" in config:
        raise ValueError(f"{path} asks for code of its own to be loaded (auto_map): refused")
    if config.get("peft_type") != "LORA":
        kind = config.get("peft_type")
        raise ValueError(f"{path}: {kind!r} is no LoRA adapter, and only those can be served")
    _check_plain(path, config)
    return config


def _read_config(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        raw = file.read(CONFIG_BYTES)
    config = None
    # Nesting can use up the stack of whoever reads or prints it; honest ones have few brackets.
    if raw.count(b"[") + raw.count(b"{") <= MOST_BRACKETS:
        with contextlib.suppress(ValueError):
            config = json.loads(raw)
    if isinstance(config, dict):
        return config
    raise ValueError(f"{path} is not the JSON of an adapter's configuration: save it again")


def _check_plain(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse what makes an adapter more than pairs of matrices beside linear layers."""
    unusual = sorted(name for name in set(config) - PLAIN if config[name])
    if config.get("bias") not in (None, "none"):
        unusual.append("bias")
    begun = str(config.get("init_lora_weights")).lower()
    if begun.startswith(CHANGES_THE_BASE):
        unusual.append(f"init_lora_weights {begun}, which changes the base")
    mapping = config.get("auto_mapping") or {}
    library = mapping.get("parent_library") if isinstance(mapping, dict) else mapping
    if str(library or "transformers").split(".")[0] != "transformers":
        unusual.append(f"auto_mapping to {library}")
    if unusual:
        raise ValueError(
            f"{path} has {', '.join(unusual)}: only a plain LoRA can be served. Train it without, "
            "or merge it into its base where it was made, and add that as a base model"
        )


def _numbers(config: Mapping[str, Any]) -> tuple[int, float]:
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ValueError(f"{CONFIG}: r is {rank!r} and must be a whole number from 1 on")
    if rank > LARGEST_RANK:
        raise ValueError(
            f"{CONFIG}: rank {rank} is above {LARGEST_RANK}, the largest that can be served: train "
            "it with less, or merge it into its base where it was made"
        )
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1e6:
        raise ValueError(f"{CONFIG}: lora_alpha is {alpha!r} and must be a number above 0")
    return rank, float(alpha)


def _pairs(tensors: Mapping[str, Any]) -> list[str]:
    """The layers that have both matrices; every tensor must be one of a pair."""
    layers: dict[str, set[str]] = {}
    for name in tensors:
        layer, dot, matrix = name.removeprefix(PREFIX).rpartition(".lora_")
        if not dot or matrix not in ("A.weight", "B.weight") or not name.startswith(PREFIX):
            raise ValueError(
                f"{WEIGHTS}: the tensor {name} is not one of a plain LoRA: save the adapter with "
                "PEFT's save_pretrained, without modules_to_save, DoRA and biases"
            )
        layers.setdefault(layer, set()).add(matrix)
    if not layers:
        raise ValueError(f"{WEIGHTS} holds no tensors: the adapter is empty")
    for layer, matrices in layers.items():
        if len(matrices) != 2:
            raise ValueError(f"{WEIGHTS}: {layer} has one matrix of two: save the adapter again")
    return sorted(layers)


def _check_fit(layers: list[str], tensors: Mapping[str, Any], rank: int, base: Path) -> None:
    shapes = base_shapes(base)
    for layer in layers:
        if layer.rpartition(".")[2] in NOT_SERVED:
            raise ValueError(
                f"{WEIGHTS}: {layer} cannot be served with an adapter: train the linear layers of "
                "the blocks alone (attention and feed-forward)"
            )
        there = shapes.get(f"{layer}.weight")
        if there is None or len(there) != 2:
            raise ValueError(
                f"{WEIGHTS}: the base {base.name} has no linear layer {layer}: this adapter is of "
                "another base; name the right one with --base"
            )
        found = [tensors[f"{PREFIX}{layer}.lora_{m}.weight"]["shape"] for m in "AB"]
        if found != [[rank, there[1]], [there[0], rank]]:
            raise ValueError(
                f"{WEIGHTS}: {layer} is {found[0]} and {found[1]}, and the base {base.name} with "
                f"rank {rank} needs {[rank, there[1]]} and {[there[0], rank]}: this adapter is of "
                "another base; name the right one with --base"
            )


def base_shapes(base: Path) -> dict[str, list[int]]:
    """The shapes of a base's weights, from the headers of its files."""
    shapes: dict[str, list[int]] = {}
    for path in sorted(base.glob("*.safetensors")):
        check_safetensors(path)
        shapes |= {name: item["shape"] for name, item in read_header(path).items()}
    return shapes


def _check_targets(listed: Any, modules: list[str]) -> None:
    """What serves an adapter reads the list as well: it must name what there is, in plain words."""
    if listed == "all-linear":
        return
    names = listed if isinstance(listed, list) else []
    known = {str(name).rpartition(".")[2] for name in names}
    missing, strange = sorted(set(modules) - known), sorted(known - set(modules))
    if not names or missing:
        raise ValueError(
            f"{CONFIG}: target_modules must list the adapted layers by name and lacks "
            f"{', '.join(missing)}: write {json.dumps(modules)} there"
        )
    if strange:
        raise ValueError(
            f"{CONFIG}: target_modules names {', '.join(strange)}, and {WEIGHTS} has no weights "
            f"for that: write {json.dumps(modules)} there, if the file is whole"
        )


def _check_values(path: Path, tensors: Mapping[str, Any]) -> None:
    """Refuse what is not a number, and an adapter that changes nothing."""
    import numpy

    changes = False
    for name, raw in _values(path, tensors):
        kind, exponent = EXPONENTS[tensors[name]["dtype"]]
        bits = numpy.frombuffer(raw, dtype=kind)
        if bool(((bits & exponent) == exponent).any()):
            raise ValueError(f"{path.name}: {name} holds infinite numbers or none (NaN): refused")
        sign = numpy.array(1 << (8 * bits.itemsize - 1), dtype=kind)
        changes = changes or (name.endswith("lora_B.weight") and bool((bits & ~sign).any()))
    if not changes:
        raise ValueError(f"{path.name}: every lora_B is zero, as before a training: nothing to add")


def _values(path: Path, tensors: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Every tensor's bytes, in pieces, with its name."""
    with open(path, "rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        for name, item in tensors.items():
            if item["dtype"] not in EXPONENTS:
                kinds = ", ".join(EXPONENTS)
                raise ValueError(f"{path.name}: {name} is {item['dtype']}; give one of {kinds}")
            at, end = item["data_offsets"]
            while at < end:
                file.seek(start + at)
                raw = file.read(min(PIECE, end - at))
                at += len(raw)
                yield name, raw
