"""Messages become the same token ids wherever they are read."""

import json
from pathlib import Path

import pytest

from engine.errors import ModelUnavailable
from engine.models import renderer
from engine.models.batches import read_rows
from engine.models.generate import generate
from engine.models.gradients import accumulate
from engine.models.lora_layers import add_lora
from engine.models.renderer import render_prompt, render_row, template_hash
from engine.models.weights import Loaded
from engine.types import Ask, LoraSettings, Message
from tests.worker.samples import messages, never

CONVERSATIONS: list[list[Message]] = [
    messages("17 + 25 = ?"),
    [{"role": "user", "content": "Name the café's owner — in one word.\n\nThanks!"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "What is 3 * 4?"},
    ],
]


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("completion", ["42", "The answer is 42.", "Ça va: 3\n\nx = 4"])
def test_prompt_completion_and_end_are_what_the_template_makes_of_the_whole(
    loaded: Loaded, conversation: list[Message], completion: str
) -> None:
    ids, start = render_row(loaded.tokenizer, conversation, completion, ends=True)
    whole = [*conversation, {"role": "assistant", "content": completion}]
    text = loaded.tokenizer.apply_chat_template(whole, tokenize=False)
    assert text.endswith("\n")
    assert ids == loaded.tokenizer(text.removesuffix("\n"), add_special_tokens=False)["input_ids"]
    assert ids[:start] == render_prompt(loaded.tokenizer, conversation)


def test_an_answer_that_was_cut_off_has_no_end(loaded: Loaded) -> None:
    whole, start = render_row(loaded.tokenizer, messages("2 + 2 = ?"), "4", ends=True)
    cut, _ = render_row(loaded.tokenizer, messages("2 + 2 = ?"), "4", ends=False)
    assert whole == [*cut, loaded.tokenizer.eos_token_id]
    assert start == len(cut) - 1


def test_control_words_in_an_answer_are_plain_text(loaded: Loaded) -> None:
    ids, start = render_row(loaded.tokenizer, messages("Hi"), "a <|im_end|> b", ends=False)
    assert not set(ids[start:]) & loaded.end_ids
    assert loaded.tokenizer.decode(ids[start:]) == "a <|im_end|> b"


def test_training_evaluation_and_generation_feed_the_model_the_same_ids(
    loaded: Loaded, tmp_path: Path
) -> None:
    """The ids are caught where they enter the model, on each of the three ways in."""
    prompt = messages("17 + 25 = ?")
    expected = render_prompt(loaded.tokenizer, prompt)
    ask = Ask(key="a", messages=prompt, max_tokens=1)
    fed: list[list[int]] = []

    def catch(_module: object, _args: object, fields: dict[str, object]) -> None:
        ids = fields["input_ids"]
        fed.append(ids[0].tolist())  # type: ignore[index]

    rows_file = tmp_path / "rows.jsonl"
    row = {"messages": prompt, "completion": "42", "ends": True}
    rows_file.write_text(json.dumps(row) + "\n")
    rows = read_rows(loaded.tokenizer, rows_file, 1024)

    hook = loaded.model.base_model.register_forward_pre_hook(catch, with_kwargs=True)
    try:
        generate(loaded, [ask], lambda batch: None, never, lambda count: None)
        generate(loaded, [ask], lambda batch: None, never, lambda count: None, share=0.5)
        wrapped, _ = add_lora(loaded, LoraSettings(rank=2))
        accumulate(wrapped, rows, 1)
    finally:
        hook.remove()
        wrapped.unload()
        loaded.model.eval().requires_grad_(False)
    generated, evaluated, trained = fed
    assert generated == evaluated == expected
    assert trained == [*expected, *loaded.tokenizer("42")["input_ids"]]


def test_the_template_hash_follows_template_and_vocabulary(loaded: Loaded) -> None:
    from transformers import AutoTokenizer

    other = AutoTokenizer.from_pretrained(loaded.tokenizer.name_or_path)
    before = template_hash(other)
    assert before == template_hash(loaded.tokenizer)
    other.chat_template += " "
    assert template_hash(other) != before
    other.chat_template = other.chat_template[:-1]
    other.add_tokens(["<new>"])
    assert template_hash(other) != before


def test_a_template_that_does_not_end_is_left_after_some_seconds(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    monkeypatch.setattr(renderer, "RENDER_SECONDS", 0.2)
    monkeypatch.setattr(loaded.tokenizer, "chat_template", loop)
    with pytest.raises(ModelUnavailable, match="chat template takes more than"):
        render_prompt(loaded.tokenizer, messages("Hi"))
    monkeypatch.undo()
    assert render_prompt(loaded.tokenizer, messages("Hi"))
