"""What a foreign folder of weights must be before it may become a base model; no torch here.

Every refusal is a ValueError that names the file, says what is wrong with it, and what to do.
What is not covered: whether the weights are any good, and what a model that answers may say.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from data.files import MANIFEST
from engine.models.registry import REFUSED_SUFFIXES, TEMPLATE_BYTES, check_file, check_safetensors

WEIGHTS = ".safetensors"
ADAPTER = ("adapter_config.json", "adapter_model.")
INDEX = "model.safetensors.index.json"
TAKEN = (WEIGHTS, ".json", ".jinja", ".txt", ".model", ".md")
TAKEN_NAMES = ("LICENSE", "LICENCE", "NOTICE", "USE_POLICY")
TOKENIZERS = (("tokenizer.json",), ("tokenizer.model",), ("vocab.json", "merges.txt"))
PLAIN_AGAIN = (
    "take the model's own repository in safetensors, not one that was quantized for serving"
)
OTHER_SCALES = ("final_logit_softcapping", "logit_scale", "logits_scaling")


def check_door(folder: Path, say: Callable[[str], None] = lambda text: None) -> list[Path]:
    """The files that make up the base model in `folder`, checked one by one and together.

    `say` hears of what is left out. The chat template is checked for size alone: rendering it is
    engine/models/template_trial.py's.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: name the one that holds config.json")
    files = list(_visible(folder))
    check_names([path.relative_to(folder).as_posix() for path in files])
    for path in files:
        _check_link(path, folder.resolve())
        check_file(path)
    taken = [path for path in files if is_taken(path.relative_to(folder).as_posix())]
    names = (path.relative_to(folder).parts[0] for path in files if path not in taken)
    left = sorted(set(names) - {MANIFEST})
    if left:
        say(f"left out, not needed: {', '.join(left[:8])}{' ...' if len(left) > 8 else ''}")
    check_config(folder)
    _check_weights(folder)
    find_templates(folder)
    return taken


def check_small_files(folder: Path) -> None:
    """What can be said of a model before its weights are there."""
    for path in _visible(folder):
        check_file(path)
    check_config(folder)
    find_templates(folder)


def check_names(names: Sequence[str]) -> None:
    """Refuse by names alone what a repository or folder lacks: before anything is fetched."""
    adapters = [name for name in names if name.startswith(ADAPTER) and "/" not in name]
    if adapters:  # transformers would put it on, unasked
        raise ValueError(
            f"{adapters[0]} is an adapter's: bring it with python3 run.py checkpoint import, or "
            "merge it into its base where it was made; a base model has none beside it"
        )
    code = [name for name in names if name.endswith(".py")]
    if code:
        raise ValueError(f"{code[0]} is program code, which a model must not bring: {PLAIN_AGAIN}")
    weights = [name for name in names if "/" not in name and name.endswith(WEIGHTS)]
    pickles = [name for name in names if name.endswith(REFUSED_SUFFIXES)]
    if pickles and not weights:
        raise ValueError(
            f"{pickles[0]} is not safetensors, and there is nothing else: pickled weights can run "
            "code when loaded. Take the model's repository in safetensors"
        )
    if not weights and any(name.endswith(".gguf") for name in names):
        raise ValueError("the weights are GGUF alone, which cannot be trained here: " + PLAIN_AGAIN)
    if not weights:
        raise ValueError(f"there are no {WEIGHTS} weights: {PLAIN_AGAIN}")
    if "config.json" not in names:
        raise ValueError("there is no config.json: take the whole folder of the model")
    if not any(set(parts) <= set(names) for parts in TOKENIZERS):
        raise ValueError(
            "there is no tokenizer (tokenizer.json, tokenizer.model, or vocab.json with "
            "merges.txt): take the whole folder of the model"
        )


def is_taken(name: str) -> bool:
    """Whether a file becomes part of the base model: weights, configs, tokenizer, words about it."""
    if name == MANIFEST:  # one of ours is made anew
        return False
    if name.startswith("additional_chat_templates/"):
        return name.endswith(".jinja") and name.count("/") == 1
    return "/" not in name and (name.endswith(TAKEN) or name.startswith(TAKEN_NAMES))


def check_config(folder: Path) -> dict[str, Any]:
    """The config of the base; ValueError when its weights are not plain numbers."""
    path = folder / "config.json"
    config = _json(path)
    if not config.get("model_type"):
        raise ValueError(f"{path} names no model_type: take the whole folder of the model")
    quantized = config.get("quantization_config")
    if quantized:
        told = quantized if isinstance(quantized, Mapping) else {"quant_method": quantized}
        method = told.get("quant_method", "some method")
        raise ValueError(f"{path}: the weights are quantized ({method}): {PLAIN_AGAIN}")
    return config


def find_templates(folder: Path) -> dict[str, str]:
    """The chat templates of a folder by the file they are in; ValueError when there is none."""
    found = {
        path.relative_to(folder).as_posix(): _text(path)
        for path in sorted([*folder.glob("*.jinja"), *folder.glob("additional_chat_templates/*")])
    }
    for name in ("tokenizer_config.json", "chat_template.json"):
        template = _json(folder / name).get("chat_template") if (folder / name).exists() else None
        for one in template if isinstance(template, list) else [template] if template else []:
            text = one.get("template") if isinstance(one, Mapping) else one
            key = f"{name} ({one.get('name')})" if isinstance(one, Mapping) else name
            found[key] = str(text)
    if not found:
        raise ValueError(
            f"{folder} has no chat template (chat_template.jinja, or chat_template in "
            "tokenizer_config.json): take the instruct version of the model"
        )
    for name, text in found.items():
        if len(text.encode()) > TEMPLATE_BYTES:
            raise ValueError(_too_long(folder / name.split(" (")[0]))
    return found


def count_bytes(files: Sequence[Path]) -> int:
    """Bytes of these files together."""
    return sum(path.stat().st_size for path in files)


def _check_weights(folder: Path) -> None:
    """Every tensor that the index promises is in the file that it names."""
    index = folder / INDEX
    if not index.exists():
        parts = sorted(folder.glob("*-of-*.safetensors"))
        if parts:
            raise ValueError(f"{index} is missing, and {parts[0].name} is a part: fetch it again")
        return
    promised = _json(index).get("weight_map")
    if not isinstance(promised, dict) or not all(isinstance(one, str) for one in promised.values()):
        raise ValueError(f"{index} has no weight_map from tensors to files: fetch it again")
    names = {path.name for path in folder.iterdir() if path.is_file()}
    there: dict[str, set[str]] = {}
    for tensor, name in promised.items():
        path = folder / name
        if name not in there:
            if name not in names:
                raise ValueError(f"{path} is missing, and {INDEX} needs it: fetch it again")
            there[name] = check_safetensors(path)
        if tensor not in there[name]:
            raise ValueError(f"{path} lacks the tensor {tensor}: fetch it again")


def _check_link(path: Path, folder: Path) -> None:
    """Refuse a way out of the folder: what it leads to would be copied along, and handed on."""
    target = path.resolve()
    cached = folder.parent.name == "snapshots" and target.parent == folder.parent.parent / "blobs"
    if not cached and not target.is_relative_to(folder):
        raise ValueError(
            f"{path} is a link to a file elsewhere: put a copy of that file in its place, or leave "
            "it out"
        )


def _visible(folder: Path) -> Iterator[Path]:
    """Files of a folder and those below it, without hidden ones such as a downloader's notes."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield path


def _json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not JSON: fetch it again") from None
    if not isinstance(record, dict):
        raise ValueError(f"{path} is not a JSON object: fetch it again")  # noqa: TRY004
    return record


def _too_long(path: Path) -> str:
    return (
        f"{path} has a chat template of more than {TEMPLATE_BYTES} bytes, which no honest one "
        "needs: take the model from elsewhere"
    )


def _text(path: Path) -> str:
    if path.stat().st_size > TEMPLATE_BYTES:
        raise ValueError(_too_long(path))
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text: fetch it again") from None
