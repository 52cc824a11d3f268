"""Writes a base with an adapter merged in: `python -m engine.models.merge ORDER.json`.

Tensor by tensor, so that memory holds one at a time however large the model is. A merged weight is
the base's in the asked precision, plus the product in float32, rounded once: exactly what the
worker computes when it puts the adapter on.
"""

import json
import logging
import re
import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.disk import is_full
from data.files import MANIFEST, publish, write_manifest
from engine.children import die_with_parent
from engine.errors import ModelUnavailable
from engine.models.adapter_check import PREFIX, read_header
from engine.models.registry import check_safetensors
from engine.models.weights import read_adapter_config, read_adapter_weights
from engine.worker import share_cores

if TYPE_CHECKING:
    import torch

REFUSED = "refused: "  # begins the line that tells people why
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
INDEX = "model.safetensors.index.json"
CARD = "README.md"


def merge(
    base: Path, adapter: Path, target: Path, dtype: str, card: str, about: dict[str, Any]
) -> None:
    """Write the whole model at `target`, or nothing; imports torch, so it runs in a child process.

    Tokenizer, template and configuration are the base's. `dtype` is that of every floating tensor.
    ModelUnavailable when the adapter has weights for a layer that is not in the base's files.
    """
    clear_leftovers(target)
    aside = target.with_name(f"{target.name}.tmp-{uuid.uuid4().hex[:8]}")
    aside.mkdir()
    try:
        _copy_others(base, aside, dtype)
        pairs = _Pairs(adapter)
        for path in sorted(base.glob("*.safetensors")):
            _merge_file(path, aside / path.name, pairs, dtype)
        pairs.check_all_used()
        _mend_index(aside)
        (aside / CARD).write_text(card, encoding="utf-8")
        write_manifest(aside, about)
        publish(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def clear_leftovers(target: Path) -> None:
    """Remove what an export to `target` left that was killed; only names that this file makes."""
    unfinished = re.compile(re.escape(target.name) + r"\.tmp-[0-9a-f]{8}")
    for path in target.parent.iterdir():
        if unfinished.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


class _Pairs:
    """An adapter's matrices by the name of the weight that they belong to."""

    def __init__(self, folder: Path) -> None:
        config = read_adapter_config(folder)
        self._scale = config["lora_alpha"] / config["r"]
        self._weights = read_adapter_weights(folder)
        ends = ".lora_A.weight"
        layers = [name for name in self._weights if name.endswith(ends)]
        self.left = {f"{name.removeprefix(PREFIX).removesuffix(ends)}.weight" for name in layers}
        self._folder = folder

    def add_to(self, name: str, weight: "torch.Tensor") -> "torch.Tensor":
        """The weight with its product added in float32; itself where the adapter has none."""
        if name not in self.left:
            return weight
        self.left.remove(name)
        stem = f"{PREFIX}{name.removesuffix('.weight')}"
        up, down = (self._weights[f"{stem}.lora_{one}.weight"] for one in "BA")
        merged: torch.Tensor = weight.float() + (up @ down) * self._scale
        return merged.to(weight.dtype)

    def check_all_used(self) -> None:
        """Nothing may be left out silently."""
        if self.left:
            raise ModelUnavailable(
                f"{self._folder} has weights for {min(self.left)}, which is no linear layer in the "
                "base's files: this adapter cannot be merged here; export it without --merge"
            )


def _merge_file(source: Path, target: Path, pairs: _Pairs, dtype: str) -> None:
    """Write one file of weights anew, its tensors in their order."""
    header = read_header(source)
    names = sorted(header, key=lambda name: header[name]["data_offsets"][0])
    described, at = {}, 0
    for name in names:
        kind = _stored_as(header[name]["dtype"], dtype)
        size = _size(header[name], kind)
        described[name] = {
            "dtype": kind,
            "shape": header[name]["shape"],
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **described}).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(_tensors(source, names, pairs, dtype))
    check_safetensors(target)


def _tensors(source: Path, names: list[str], pairs: _Pairs, dtype: str) -> Iterator[Any]:
    import torch
    from safetensors import safe_open

    with safe_open(source, framework="pt") as weights:
        for name in names:
            tensor = weights.get_tensor(name)
            if tensor.is_floating_point() and tensor.element_size() > 1:
                tensor = pairs.add_to(name, tensor.to(getattr(torch, dtype)))
            yield tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data


def _stored_as(kind: str, dtype: str) -> str:
    return DTYPES[dtype] if kind in (*DTYPES.values(), "F64") else kind


def _size(item: Mapping[str, Any], kind: str) -> int:
    from engine.models.registry import DTYPE_BITS

    start, end = item["data_offsets"]
    return int(end - start) * DTYPE_BITS[kind] // DTYPE_BITS[item["dtype"]]


def _copy_others(base: Path, aside: Path, dtype: str) -> None:
    """Everything but the weights; the configuration says the new precision."""
    for path in sorted(base.iterdir()):
        if path.is_file() and path.suffix != ".safetensors" and path.name not in (MANIFEST, CARD):
            shutil.copyfile(path, aside / path.name)
    config = json.loads((aside / "config.json").read_bytes())
    for name in ("dtype", "torch_dtype"):
        if name in config:
            config[name] = dtype
    if "torch_dtype" not in config:
        config["dtype"] = dtype
    (aside / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def _mend_index(aside: Path) -> None:
    """The index of a model in several files states how large they are together."""
    path = aside / INDEX
    if path.is_file():
        index = json.loads(path.read_bytes())
        sizes = [
            item["data_offsets"][1] - item["data_offsets"][0]
            for file in aside.glob("*.safetensors")
            for item in read_header(file).values()
        ]
        index.setdefault("metadata", {})["total_size"] = sum(sizes)
        path.write_text(json.dumps(index, indent=2) + "\n")


def main(order: dict[str, Any]) -> int:
    """Carry one order out; 3, with the reason on the last line, when it is refused."""
    try:
        merge(
            Path(order["base"]),
            Path(order["adapter"]),
            Path(order["target"]),
            order["dtype"],
            order["card"],
            order["about"],
        )
    except (ModelUnavailable, ValueError) as refused:
        print(f"{REFUSED}{refused}", file=sys.stderr)
        return 3
    except Exception as error:
        if not is_full(error):
            raise
        print(f"{REFUSED}the disk is full: free some space, then try again", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    die_with_parent()
    share_cores()
    logging.basicConfig(level=logging.WARNING)
    sys.exit(main(json.loads(Path(sys.argv[1]).read_bytes())))
