"""Recipes looked at before they train: what could not be served, or does not fit, is named."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.lint import Place, lint_recipe
from engine.models.memory import serving_need, training_need
from engine.models.shapes import read_shape
from engine.preset_report import report
from engine.types import LoraSettings
from recipes.presets import load_preset, preset_names
from run import library

CARD = Place(device="cuda", precision="bfloat16", memory=24 * 2**30)
CPU = Place(device="cpu", precision="float32", memory=16 * 2**30)
LLAMA = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
MIXTURE = load_preset("gpu-140gb-experts")["sized_for"]["config"]
SIZED = [name for name in preset_names() if "sized_for" in load_preset(name)]


def base(folder: Path, config: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def refusals(folder: Path, place: Place = CPU, **lora: Any) -> list[str]:
    return list(lint_recipe(lora, base(folder, LLAMA), place).refusals)


@pytest.mark.parametrize(
    ("lora", "says"),
    [
        ({"modules_to_save": ["lm_head"]}, "lora.modules_to_save: vLLM cannot serve whole layers"),
        ({"use_dora": True}, "lora.use_dora: vLLM cannot serve DoRA adapters.*leave it out"),
        ({"bias": "all"}, "lora.bias: vLLM cannot serve trained biases"),
        ({"rank": 1024}, "lora.rank: vLLM serves adapters up to rank 512, not 1024"),
        ({"rank": 0}, "lora.rank: give 1 or more"),
        ({"target_modules": ["lm_head"]}, "an adapter on lm_head could not be served"),
        (
            {"target_modules": ["q_proj", "in_proj_qkv"]},
            "this base has no layer in_proj_qkv; it has down_proj, gate_proj, k_proj",
        ),
        ({"target_parameters": EXPERTS[:1]}, "experts are served with both of"),
        ({"target_parameters": EXPERTS}, "cannot serve adapters on the experts of a llama"),
        (
            {"max_length": 9000, "rows_at_once": 1, "gradient_checkpointing": True},
            "rows of 9000 tokens do not fit the base's context of 8192",
        ),
        ({"quantize": "4bit"}, 'lora.quantize = "4bit" needs an NVIDIA card'),
        ({"quantize": "1bit"}, "lora.quantize is '1bit': give \"4bit\""),
        ({"dropout": 1.0}, "lora.dropout: give a share"),
        ({"warmth": 3}, "lora.warmth: no such setting; there are"),
    ],
)
def test_a_recipe_whose_adapter_could_not_be_served_is_refused_by_name(
    lora: dict[str, Any], says: str, tmp_path: Path
) -> None:
    found = refusals(tmp_path, **lora)
    assert len(found) == 1 and re.search(says, found[0]), found


def test_recipes_that_ship_are_not_refused_on_a_base_that_they_are_for(tmp_path: Path) -> None:
    for name in preset_names():
        preset = load_preset(name)
        sized = preset.get("sized_for", {})
        config = sized.get("config", LLAMA) | {"max_position_embeddings": 32768}
        place = Place(
            device="cuda" if sized else "cpu",
            precision="bfloat16",
            memory=sized.get("card_gb", 16) * 2**30,
        )
        lora = {key: value for key, value in preset.get("lora", {}).items() if key != "quantize"}
        found = lint_recipe(lora, base(tmp_path, config), place)
        assert not found.refusals or place.device == "cpu", (name, found.refusals)


@pytest.mark.parametrize("name", SIZED)
def test_presets_state_the_memory_that_they_need_and_fit_their_card(name: str) -> None:
    preset = load_preset(name)
    sized, settings = preset["sized_for"], LoraSettings(**preset["lora"])
    need = training_need(sized["config"], settings).total
    assert round(need / 1e9, 1) == sized["needs_gb"]
    assert need < 0.9 * sized["card_gb"] * 2**30
    words = (Path("recipes/presets") / f"{name}.toml").read_text().splitlines()[1]
    assert f"{need / 1e9:.1f} GB" in words
    measured = serving_need(sized["config"], rows=8, length=512)
    assert measured.total < sized["card_gb"] * 2**30, "it is measured whole"


def test_memory_grows_with_what_is_asked_and_falls_with_what_saves_it() -> None:
    config = load_preset("gpu-24gb")["sized_for"]["config"]
    plain = training_need(config, LoraSettings(batch_size=4))
    again = training_need(config, LoraSettings(batch_size=4, gradient_checkpointing=True))
    small = training_need(config, LoraSettings(batch_size=4, quantize="4bit"))
    single = training_need(config, LoraSettings(batch_size=4, rows_at_once=1))
    assert again.activations < plain.activations / 10
    assert small.weights < 0.5 * plain.weights
    assert single.activations == plain.activations // 4
    few = LoraSettings(batch_size=4, target_modules=["q_proj"])
    assert training_need(config, few).adapter < plain.adapter / 10
    assert str(plain).startswith(f"{plain.total / 1e9:.1f} GB (weights ")


def test_experts_of_four_bits_stay_whole_since_they_are_no_layers_of_their_own() -> None:
    whole = training_need(MIXTURE, LoraSettings()).weights
    assert training_need(MIXTURE, LoraSettings(quantize="4bit")).weights > 0.9 * whole


def test_parameters_are_counted_as_the_model_has_them() -> None:
    assert read_shape(LLAMA).parameters == pytest.approx(134_515_008, rel=1e-3)
    assert read_shape({"text_config": MIXTURE}).parameters == pytest.approx(34.66e9, rel=1e-3)
    with pytest.raises(ValueError, match=r"config\.json states no hidden_size"):
        read_shape({"model_type": "x"})


def test_a_recipe_that_cannot_fit_is_refused_with_what_would_help(tmp_path: Path) -> None:
    config = load_preset("gpu-24gb")["sized_for"]["config"] | {"max_position_embeddings": 32768}
    found = lint_recipe({"max_length": 2048}, base(tmp_path, config), CARD)
    (why,) = found.refusals
    assert why.startswith("memory: one row at once needs ") and "cuda has 25.8 GB" in why
    assert 'quantize = "4bit"' in why and "gradient_checkpointing = true" in why
    usual = lint_recipe({}, base(tmp_path, LLAMA), CARD)
    assert not usual.refusals and any("rows_at_once lower" in note for note in usual.notes)


def test_a_preset_is_shown_with_its_first_rows_as_the_model_sees_them(tiny: Any) -> None:
    said: list[str] = []
    models = Path(tiny.path).parent
    assert not report(load_preset("demo"), "tiny", models, library(), said.append)
    told = "\n".join(said)
    assert "a batch of 16 worked answers: " in told and "% trained" in told
    assert "<|im_start|>assistant\\n⟦" in told and "<|im_end|>⟧" in told
    assert said[-1] == "it may train, and its adapter can be served"
    bad = load_preset("demo") | {"lora": {"use_dora": True}}
    assert report(bad, "tiny", models, library(), said.append)
    assert said[-1].startswith("refused: lora.use_dora")


def test_a_base_that_is_not_here_is_refused_with_those_that_are(tiny: Any) -> None:
    said: list[str] = []
    models = Path(tiny.path).parent
    assert report(load_preset("demo"), "tinny", models, library(), said.append)
    (refused,) = said
    assert refused.startswith("refused: there is no base model tinny; there are ")
    assert "tiny" in refused.split("there are ")[1].split(", ")


def test_a_preset_without_a_base_is_not_told_to_fit(tmp_path: Path) -> None:
    said: list[str] = []
    preset = load_preset("gpu-8gb")
    lora = {name: value for name, value in preset["lora"].items() if name != "quantize"}
    assert not report(preset | {"lora": lora}, None, tmp_path, library(), said.append)
    assert said[-1] == "whether it fits and can be served: give --base"


def test_looking_at_presets_ends_quietly_with_its_reader(tmp_path: Path) -> None:
    command = [sys.executable, "run.py", "preset", "list", "--home", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        assert listing.stdout is not None and listing.stderr is not None
        listing.stdout.close()
        assert listing.stderr.read() == b""
    assert listing.returncode == 1
