"""What a preset may ask of a training: fewer rows at once, chosen layers, recomputed activations."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

from data.files import write_manifest
from engine.errors import StepFailed
from engine.models import lora
from engine.models.batches import read_rows
from engine.models.gradients import accumulate
from engine.models.lora_layers import add_lora
from engine.models.registry import find_base, with_adapter
from engine.models.weights import Loaded, load_again, load_base, wear
from engine.types import LoraSettings, ModelRef, TrainResult
from recipes.presets import load_preset
from tests.worker.samples import job, never, write_rows


def _train(loaded: Loaded, tiny: ModelRef, folder: Path, **settings: object) -> TrainResult:
    training = job(folder, tiny, rows=8, learning_rate=3e-2, **settings)
    return lora.train(loaded, training, lambda step: None, never, lambda count: None)


def test_activations_computed_again_give_the_gradients_of_those_that_were_kept(
    tiny: ModelRef, tmp_path: Path
) -> None:
    import torch

    loaded = load_base(tiny, "float64", "cpu")
    rows = read_rows(loaded.tokenizer, Path(write_rows(tmp_path / "rows.jsonl", 4)), 1024)
    wrapped, _ = add_lora(loaded, LoraSettings(rank=2))
    wrapped.double()
    torch.manual_seed(0)
    for parameter in wrapped.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.02)
    kept = accumulate(wrapped, rows, 4)
    gradients = {name: p.grad.clone() for name, p in wrapped.named_parameters() if p.requires_grad}
    wrapped.zero_grad()
    loaded.model.activation_checkpointing_enable({"use_reentrant": False})
    assert accumulate(wrapped, rows, 4) == pytest.approx(kept, abs=1e-9)
    for name, parameter in wrapped.named_parameters():
        if parameter.requires_grad:
            assert torch.allclose(parameter.grad, gradients[name], atol=1e-9)


def test_a_training_with_recomputed_activations_learns_and_leaves_the_base_as_it_was(
    tiny: ModelRef, tmp_path: Path
) -> None:
    loaded = load_base(tiny, "float32", "cpu")
    again = _train(loaded, tiny, tmp_path / "again", gradient_checkpointing=True)
    assert not loaded.model.is_activation_checkpointing
    kept = _train(loaded, tiny, tmp_path / "kept")
    assert again.loss_last < again.loss_first
    assert again.loss_last == pytest.approx(kept.loss_last, abs=1e-4)


def test_only_the_layers_that_are_named_get_an_adapter(tiny: ModelRef, tmp_path: Path) -> None:
    loaded = load_base(tiny, "float32", "cpu")
    result = _train(loaded, tiny, tmp_path, target_modules=("q_proj", "down_proj"))
    folder = Path(result.adapter_dir)
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["target_modules"] == ["down_proj", "q_proj"]
    from safetensors.torch import load_file

    names = {name.split(".")[-3] for name in load_file(folder / "adapter_model.safetensors")}
    assert names == {"q_proj", "down_proj"}
    wear(loaded, with_adapter(tiny, folder))


def test_four_bits_are_refused_without_a_card_and_the_base_stays_loaded(tiny: ModelRef) -> None:
    loaded = load_base(tiny, "float32", "cpu")
    with pytest.raises(StepFailed, match='quantize = "4bit" needs an NVIDIA card.*trains on cpu'):
        load_again(loaded, "4bit")
    assert loaded.model is not None
    with pytest.raises(StepFailed, match="quantize is '8bit'"):
        load_base(tiny, "float32", "cpu", "8bit")


def test_a_layer_that_the_base_lacks_is_named(tiny: ModelRef, tmp_path: Path) -> None:
    loaded = load_base(tiny, "float32", "cpu")
    with pytest.raises(StepFailed, match="tiny has no layer in_proj_qkv"):
        _train(loaded, tiny, tmp_path, target_modules=("q_proj", "in_proj_qkv"))


@pytest.fixture
def mixture(tiny: ModelRef, tmp_path: Path) -> ModelRef:
    """Full and linear attention with four experts in each of two layers, random weights."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.qwen3_5_moe.configuration_qwen3_5_moe import Qwen3_5MoeTextConfig

    torch.manual_seed(0)
    config = Qwen3_5MoeTextConfig(
        vocab_size=49152,
        hidden_size=32,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        linear_num_key_heads=1,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    folder = tmp_path / "mixture"
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(Path(tiny.path) / name, folder)
    write_manifest(folder)
    return find_base(folder.parent, "mixture")


def test_linear_attention_and_experts_are_trained_and_worn_as_peft_wears_them(
    mixture: ModelRef, tmp_path: Path
) -> None:
    import torch
    from peft import PeftModel

    loaded = load_base(mixture, "float32", "cpu")
    preset = load_preset("gpu-140gb-experts")["lora"]
    chosen = {name: tuple(preset[name]) for name in ("target_modules", "target_parameters")}
    result = _train(loaded, mixture, tmp_path / "job", gradient_checkpointing=True, **chosen)
    assert result.loss_last < result.loss_first
    bare = _logits(loaded.model)
    wear(loaded, with_adapter(mixture, Path(result.adapter_dir)))
    ours = _logits(loaded.model)
    wear(loaded, mixture)
    assert torch.equal(_logits(loaded.model), bare)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # one of PEFT's own
        theirs = _logits(PeftModel.from_pretrained(loaded.model, result.adapter_dir))
    assert float((ours - theirs).abs().max()) < 1e-4 < float((ours - bare).abs().max())


def _logits(model: Any) -> Any:
    import torch

    with torch.inference_mode():
        return model(input_ids=torch.tensor([[1, 17, 4093, 198, 33, 1232]])).logits
