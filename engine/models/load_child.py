"""Says whether transformers can load a folder: `python -m engine.models.load_child FOLDER`.

Config, model class and tokenizer are loaded, the weights are not; no code of the folder runs and
nothing is fetched. In: a conversation to render, as JSON. Out, on the last line: JSON with what it
is, or with an error in words.
"""

import json
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

from engine.children import die_with_parent

CPU_SECONDS = 180
MEMORY_BYTES = 24 * 1024**3  # of addresses; the libraries alone map several


def main() -> None:
    """Load, and tell what came of it."""
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    try:
        told = describe(folder, json.load(sys.stdin))
    except Exception as error:  # noqa: BLE001  whatever a foreign folder makes the library raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        first = " ".join(lines).split(". ")[0][:300]
        told = {"error": f"{type(error).__name__}: {first}"}
    print(json.dumps(told))


def describe(folder: Path, talk: list[dict[str, str]]) -> dict[str, Any]:
    """What a folder holds: architecture, parameters, context, linear layers, a rendered prompt."""
    from transformers import AutoConfig

    # First, and without torch: most of what cannot be loaded is known by now.
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with torch.device("meta"):
        made: Any = AutoModelForCausalLM
        model: Any = made.from_config(config, trust_remote_code=False)
    tokenizer: Any = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    return {
        "architecture": type(model).__name__,
        "model_type": config.model_type,
        "parameters": sum(one.numel() for one in model.parameters()),
        "context": int(config.get_text_config().max_position_embeddings),
        "vocabulary": model.get_input_embeddings().num_embeddings,
        "linears": linear_names(model),
        "fused": fused_names(model),
        **_rendered(tokenizer, talk),
    }


def linear_names(model: Any) -> list[str]:
    """Last names of the linear layers in the blocks, which an adapter may be put on."""
    import torch

    head = model.get_output_embeddings()
    return sorted(
        {
            name.rpartition(".")[2]
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and module is not head
        }
    )


def fused_names(model: Any) -> list[str]:
    """Names of parameters that hold the weights of all experts of a layer."""
    parts = (name.split(".") for name, one in model.named_parameters() if one.dim() == 3)
    return sorted({".".join(name[-3:]) for name in parts if "experts" in name})


def _rendered(tokenizer: Any, talk: list[dict[str, str]]) -> dict[str, Any]:
    if not tokenizer.chat_template:
        raise ValueError("the tokenizer has no chat template: take the instruct version")
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no end token, so no answer would end")
    text = tokenizer.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return {"text": text, "largest_id": max(ids), "end_id": int(tokenizer.eos_token_id)}


if __name__ == "__main__":
    main()
