"""Base models for the tests: the embedded one, and a tiny one with the same tokenizer."""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from data.files import write_manifest
from engine.models.registry import ensure_embedded, find_base
from engine.types import ModelRef

SHARE = Path(sys.prefix) / "share" / "pawl"


@pytest.fixture(scope="session")
def base(request: pytest.FixtureRequest) -> ModelRef:
    """The embedded model: the folder in PAWL_TEST_BASE, or made once from the set-up's file."""
    given = os.environ.get("PAWL_TEST_BASE")
    if given:
        return find_base(Path(given).parent, Path(given).name)
    gguf: Path = request.getfixturevalue("embedded_gguf")
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: ensure_embedded(SHARE / "base", gguf), range(2)))
    assert both[0] == both[1]
    return both[0]


@pytest.fixture(scope="session")
def tiny(base: ModelRef, tmp_path_factory: pytest.TempPathFactory) -> ModelRef:
    """A model of two narrow layers with random weights: for what happens around the arithmetic."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(Path(base.path) / name, folder)
    write_manifest(folder)
    return find_base(folder.parent, "tiny")


def lay_base(home: Path, base: ModelRef) -> None:
    """Put a base model into a home, without copying its weights, at a precision that is known."""
    model = home / "models" / base.base
    if not model.exists():
        shutil.copytree(base.path, model, copy_function=_link)
        (home / "precision-cpu.json").write_text('{"precision": "float32"}')


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)
