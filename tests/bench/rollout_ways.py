"""The ways of the rollout benchmark: `python -m tests.bench.rollout_ways WAY MODEL COUNT TOKENS`.

Each loads the embedded model in float32 with one thread, answers a few asks to warm up, then all of
them, and prints the rate with what it came to. `batched` and `read` are what the worker does,
`one_by_one` and `parsed` are transformers' own `generate` for each ask.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.models.registry import find_base
from engine.models.weights import Loaded, load_base
from engine.types import Answer, Ask, LabelAsk, Message
from engine.worker import share_cores
from tests.bench.rollout_asks import LABELS, PARSED_TOKENS, answer_asks, label_asks

WARM_UP = 2

Came = list[str]  # the text of each answer, or the label of each choice


def main(way: str, model: str, count: str, tokens: str) -> None:
    """Measure one way and print what it took."""
    share_cores()
    import torch

    torch.set_num_threads(1)
    loaded = load_base(find_base(Path(model).parent, Path(model).name), "float32", "cpu")
    answer, asks = WAYS[way], asks_of(way, int(count), int(tokens))
    answer(loaded, asks[:WARM_UP])
    began, began_cpu = time.perf_counter(), time.process_time()
    came = answer(loaded, asks)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    told = {"rate": len(asks) / seconds, "seconds": seconds, "cpu_seconds": cpu_seconds}
    print(json.dumps({**told, "came": came}))


def asks_of(way: str, count: int, tokens: int) -> list[Any]:
    """What a way is asked."""
    return answer_asks(count, tokens) if way in ("batched", "one_by_one") else label_asks(count)


def batched(loaded: Loaded, asks: Sequence[Ask]) -> Came:
    """As the worker answers."""
    from engine.models.generate import generate

    texts: dict[str, str] = {}

    def take(batch: list[Answer]) -> None:
        texts.update({answer.key: str(answer.text) for answer in batch})

    generate(loaded, asks, take, lambda: False, lambda count: None)
    return [texts[ask.key] for ask in asks]


def one_by_one(loaded: Loaded, asks: Sequence[Ask]) -> Came:
    """As transformers answers one conversation."""
    return [written(loaded, ask.messages, ask.max_tokens) for ask in asks]


def read(loaded: Loaded, asks: Sequence[LabelAsk]) -> Came:
    """The likeliest label, as the worker reads it."""
    from engine.models.labels import read_labels

    found: dict[str, dict[str, float]] = {}
    read_labels(loaded, asks, found.update, lambda: False, lambda count: None)
    return [max(LABELS, key=lambda label: found[ask.key][label]) for ask in asks]


def parsed(loaded: Loaded, asks: Sequence[LabelAsk]) -> Came:
    """The label that a written answer begins with, else what was written."""
    texts = [written(loaded, ask.messages, PARSED_TOKENS).strip() for ask in asks]
    return [next((label for label in LABELS if text.startswith(label)), text) for text in texts]


def written(loaded: Loaded, messages: Sequence[Message], tokens: int) -> str:
    """A greedy answer by transformers."""
    import torch

    ids = loaded.tokenizer.apply_chat_template(
        list(messages), add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.inference_mode():
        output = loaded.model.generate(**ids, max_new_tokens=tokens, do_sample=False)
    new = output[0, ids["input_ids"].shape[1] :]
    return str(loaded.tokenizer.decode(new, skip_special_tokens=True))


WAYS: dict[str, Callable[[Loaded, Sequence[Any]], Came]] = {
    "batched": batched,
    "one_by_one": one_by_one,
    "read": read,
    "parsed": parsed,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
