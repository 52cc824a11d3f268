"""Batches answer as the model would one ask at a time."""

from dataclasses import replace

import pytest

from engine.errors import Interrupted
from engine.models.generate import generate
from engine.models.prompts import PASS_TOKENS
from engine.models.renderer import render_prompt
from engine.models.weights import Loaded
from engine.types import Answer, Ask
from tests.worker.samples import Collector, alike_asks, asks, messages, mixed_asks, never

# Whose numbers lie well inside the share of a token: batches differ in the last digits of a sum.
CLEAR_SEEDS = (20, 10, 20, 20, 5, 20, 10, 20)


def _all(loaded: Loaded, wanted: list[Ask], share: float = 1.0) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    generate(loaded, wanted, Collector(answers), never, lambda count: None, share)
    return answers


@pytest.mark.parametrize("wanted", [mixed_asks(), alike_asks()], ids=["mixed", "alike"])
def test_greedy_batches_give_the_text_of_one_at_a_time(loaded: Loaded, wanted: list[Ask]) -> None:
    import torch

    batch = _all(loaded, wanted)
    for ask in wanted:
        ids = torch.tensor([render_prompt(loaded.tokenizer, ask.messages)])
        output = loaded.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=ask.max_tokens,
            do_sample=False,
        )[0, ids.shape[1] :]
        assert batch[ask.key].text == loaded.tokenizer.decode(output, skip_special_tokens=True)
        assert batch[ask.key].tokens_in == ids.shape[1]
        assert batch[ask.key].tokens_out == len(output)
        ended = int(output[-1]) in loaded.end_ids
        assert batch[ask.key].finish == ("stop" if ended else "length")


@pytest.mark.parametrize("wanted", [mixed_asks(), alike_asks()], ids=["mixed", "alike"])
def test_prompts_read_apart_and_joined_give_the_same_text(
    loaded: Loaded, wanted: list[Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PASS_TOKENS, "cpu", 10_000)
    together = _all(loaded, wanted)
    monkeypatch.setitem(PASS_TOKENS, "cpu", 0)  # each length is read by itself
    assert _all(loaded, wanted) == together


def test_a_sampled_answer_does_not_depend_on_its_batch(loaded: Loaded) -> None:
    drawn = zip(asks(8, max_tokens=6, temperature=1.0), CLEAR_SEEDS, strict=True)
    wanted = [replace(ask, seed=seed) for ask, seed in drawn]
    together = _all(loaded, wanted)
    alone = {key: answer for ask in wanted[2:5] for key, answer in _all(loaded, [ask]).items()}
    assert {key: together[key] for key in alone} == alone
    assert _all(loaded, wanted[::-1], share=0.05) == together


def test_seeds_make_samples_differ_and_repeat(loaded: Loaded) -> None:
    def tries(seeds: range) -> list[str | None]:
        wanted = [
            Ask(
                key=str(seed),
                messages=messages("Name an animal."),
                max_tokens=5,
                temperature=1.0,
                seed=seed,
            )
            for seed in seeds
        ]
        return [answer.text for _, answer in sorted(_all(loaded, wanted).items())]

    first = tries(range(6))
    assert len(set(first)) > 2
    assert tries(range(6)) == first


def test_sampling_at_a_very_low_temperature_is_greedy(loaded: Loaded) -> None:
    cold = [answer.text for answer in _all(loaded, asks(3, temperature=1e-4)).values()]
    assert cold == [answer.text for answer in _all(loaded, asks(3)).values()]


def test_a_stop_is_taken_between_two_tokens(loaded: Loaded) -> None:
    written: list[int] = []
    with pytest.raises(Interrupted):
        generate(
            loaded,
            [Ask(key="a", messages=messages("Tell a story."), max_tokens=200)],
            lambda batch: None,
            lambda: len(written) > 3,
            written.append,
        )
    assert len(written) < 8


def test_an_ask_beyond_the_context_is_answered_with_the_reason(loaded: Loaded) -> None:
    long = Ask(key="long", messages=messages("word " * 9000), max_tokens=4)
    answers = _all(loaded, [long, *asks(1)])
    assert answers["long"].text is None and answers["long"].finish == "error"
    assert "the model holds 8192" in str(answers["long"].error)
    assert answers["0"].text is not None
