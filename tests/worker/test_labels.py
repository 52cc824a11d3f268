"""Label reads: the model's own probabilities, in batches, without an answer being written."""

import math

import pytest

from engine.errors import Interrupted, RequestRefused
from engine.models.labels import read_labels
from engine.models.renderer import plain_ids, render_prompt
from engine.models.weights import Loaded
from engine.models.worker_engine import WorkerEngine
from engine.types import Ask, LabelAsk, Message, ModelRef
from tests.worker.samples import Collector, messages, never

ANIMALS = ("cat", "dog", "hippopotamus", "sea lion")
SYSTEM = "You sort animals. Answer with one of these words only: cat, dog, hippopotamus, sea lion."


def sorting(prompt: str) -> list[Message]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]


def label_asks() -> list[LabelAsk]:
    """Asks that begin alike and some that do not, with labels of one token and of several."""
    told = [
        "It barks.",
        "It swims, it dives and it lives in the sea with many others.",
        "It purrs.",
    ]
    asks = [
        LabelAsk(key=f"animal-{number}", messages=sorting(prompt), labels=ANIMALS)
        for number, prompt in enumerate(told)
    ]
    even = LabelAsk(key="even", messages=messages("Is 12 even?"), labels=("yes", "no"))
    return [*asks, even]


def read(loaded: Loaded, asks: list[LabelAsk], share: float = 1.0) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    read_labels(loaded, asks, found.update, never, lambda count: None, share)
    return found


def by_itself(loaded: Loaded, ask: LabelAsk, label: str) -> float:
    """The log probability of a label by one plain pass over prompt and label."""
    import torch

    prompt = render_prompt(loaded.tokenizer, ask.messages)
    ids = [*prompt, *plain_ids(loaded.tokenizer, label)]
    with torch.inference_mode():
        logprobs = loaded.model(torch.tensor([ids])).logits[0].log_softmax(dim=-1)
    return sum(float(logprobs[at - 1, ids[at]]) for at in range(len(prompt), len(ids)))


def test_a_batch_reads_what_one_pass_for_each_label_gives(loaded: Loaded) -> None:
    found = read(loaded, label_asks())
    for ask in label_asks():
        for label in ask.labels:
            wanted = by_itself(loaded, ask, label)
            assert found[ask.key][label] == pytest.approx(wanted, abs=2e-4), (ask.key, label)
    lengths = {len(plain_ids(loaded.tokenizer, label)) for label in ANIMALS}
    assert 1 in lengths and max(lengths) > 2  # both ways were read
    assert all(sum(map(math.exp, one.values())) < 1 for one in found.values())


def test_a_read_does_not_depend_on_its_batch(loaded: Loaded) -> None:
    together, alone = read(loaded, label_asks()), read(loaded, label_asks()[::-1], share=0.02)
    for key, one in together.items():
        assert one == pytest.approx(alone[key], abs=2e-4)


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ((), "give at least one label"),
        (("yes", "yes"), "each of them once"),
        (("1", "2", "10"), "'10' begins with label '1'"),
        (("yes", ""), "'' is not cut into tokens of its own"),
        (("yes", "<|im_end|>"), "is not cut into tokens of its own"),
    ],
)
def test_labels_that_cannot_be_told_apart_are_refused(
    loaded: Loaded, labels: tuple[str, ...], why: str
) -> None:
    ask = LabelAsk(key="k", messages=messages("Is 12 even?"), labels=labels)
    with pytest.raises(RequestRefused, match=why):
        read(loaded, [*label_asks(), ask])


def test_a_prompt_beyond_the_context_is_refused_before_anything_is_read(loaded: Loaded) -> None:
    long = LabelAsk(key="long", messages=messages("word " * 9000), labels=("yes", "no"))
    with pytest.raises(
        RequestRefused, match="long: prompt and label need .* holds 8192"
    ) as refused:
        read_labels(loaded, [*label_asks(), long], pytest.fail, never, lambda count: None)
    assert refused.value.code == "context_length_exceeded"


def test_a_stop_is_taken_between_two_batches(loaded: Loaded) -> None:
    batches: list[object] = []
    with pytest.raises(Interrupted):
        read_labels(
            loaded, label_asks(), batches.append, lambda: bool(batches), lambda count: None, 0.02
        )
    assert len(batches) == 1


def test_the_worker_reads_in_the_order_asked_and_chooses_as_it_writes(
    engine: WorkerEngine, base: ModelRef
) -> None:
    prompts = [f"Say {word}." for word in ("yes", "no", "yes", "no")]
    asks = [
        LabelAsk(key=str(number), messages=messages(prompt), labels=("yes", "no", "Yes", "No"))
        for number, prompt in enumerate(prompts)
    ]
    reads = engine.read_labels(base, asks, never)
    written: dict[str, str | None] = {}
    answers = Collector({})
    plain = [Ask(key=ask.key, messages=ask.messages, max_tokens=1) for ask in asks]
    engine.generate(base, plain, answers, never)
    written = {key: answer.text for key, answer in answers.answers.items()}
    assert [max(one, key=lambda label: one[label]) for one in reads] == [
        written[str(number)] for number in range(4)
    ]


def test_a_refusal_reaches_the_caller_and_the_worker_goes_on(
    engine: WorkerEngine, base: ModelRef
) -> None:
    twice = LabelAsk(key="k", messages=messages("Is 12 even?"), labels=("no", "no"))
    with pytest.raises(RequestRefused, match="each of them once"):
        engine.read_labels(base, [twice], never)
    pid = engine.pid
    (one,) = engine.read_labels(
        base, [LabelAsk(key="k", messages=messages("Is 12 even?"), labels=("yes", "no"))], never
    )
    assert set(one) == {"yes", "no"} and engine.pid == pid
