"""The embedded model merged with an adapter: the same answers, for plain transformers as well."""

from pathlib import Path

import pytest

from data.home import Home, open_home
from engine.models.adapter_export import export_merged
from engine.models.adapter_import import take
from engine.models.generate import generate
from engine.models.registry import find_base, with_adapter
from engine.models.renderer import render_prompt
from engine.models.weights import Loaded, load_base, wear
from engine.types import Answer, Ask, ModelRef
from tests.adapters import lay_adapter
from tests.worker.samples import asks, never

PROMPTS, TOKENS = 8, 8


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def answers(loaded: Loaded, ref: ModelRef) -> list[str | None]:
    """What the worker answers to the prompts, greedily."""
    found: list[Answer] = []
    wear(loaded, ref)
    generate(loaded, prompts(), found.extend, never, lambda count: None, 1.0)
    by_key = {answer.key: answer.text for answer in found}
    return [by_key[ask.key] for ask in prompts()]


def prompts() -> list[Ask]:
    return asks(PROMPTS, max_tokens=TOKENS)


def plain_answers(folder: Path) -> list[str]:
    """The same with transformers alone, one prompt at a time."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert model.dtype == torch.float32
    said = []
    for ask in prompts():
        ids = torch.tensor([render_prompt(tokenizer, ask.messages)])
        mask = torch.ones_like(ids)
        out = model.generate(ids, attention_mask=mask, max_new_tokens=TOKENS, do_sample=False)
        said.append(str(tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)))
    return said


def test_merged_answers_are_those_of_base_and_adapter(
    loaded: Loaded, base: ModelRef, home: Home, tmp_path: Path
) -> None:
    """Greedy, in float32, which is the precision that the merged weights are asked in."""
    given = lay_adapter(tmp_path / "given", base, strength=0.02)
    adapter = home.checkpoints / take(given, home.checkpoints, base)["id"]
    ref = with_adapter(base, adapter)
    worn = answers(loaded, ref)
    bare = answers(loaded, base)
    assert sum(one != other for one, other in zip(worn, bare, strict=True)) >= PROMPTS // 2

    target = home.models / "merged"
    export_merged(adapter, base, target, "# merged\n", home.logs / "merge.log", "float32")
    merged = find_base(home.models, "merged")
    assert answers(load_base(merged, "float32", "cpu"), merged) == worn
    assert plain_answers(target) == worn


def test_merged_in_bfloat16_has_the_weights_that_the_worker_computes(
    tiny: ModelRef, home: Home, tmp_path: Path
) -> None:
    """Every weight is equal to the bit, so that what was measured is what is handed out."""
    import torch

    given = lay_adapter(tmp_path / "given", tiny)
    adapter = home.checkpoints / take(given, home.checkpoints, tiny)["id"]
    log = home.logs / "merge.log"
    export_merged(adapter, tiny, home.models / "merged", "", log, "bfloat16")
    assert '"dtype": "bfloat16"' in (home.models / "merged" / "config.json").read_text()
    loaded = load_base(tiny, "bfloat16", "cpu")
    wear(loaded, with_adapter(tiny, adapter))
    merged = load_base(find_base(home.models, "merged"), "bfloat16", "cpu")
    ours, theirs = loaded.model.state_dict(), merged.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
