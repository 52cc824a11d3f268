"""Which prompts are read together: nothing is padded for long, and work resumed is cut as before."""

import inspect
from importlib import import_module
from itertools import combinations, pairwise
from random import Random

import pytest

from engine.models.attention import PLAIN_MODELS
from engine.models.prompts import cut_by_length, group_alike


def prompts(count: int) -> list[list[int]]:
    random = Random(5)
    shared = list(range(20))
    return [
        shared + [random.randrange(99) for _ in range(random.randrange(1, 90))]
        for _ in range(count)
    ]


def test_what_is_left_after_some_batches_is_cut_into_the_same_batches() -> None:
    rows = prompts(300)
    lengths = [len(ids) + 24 for ids in rows]
    whole = [[rows[at] for at in batch] for batch in group_alike(rows, lengths, "cpu", 1.0)]
    left = [ids for batch in whole[2:] for ids in batch]
    Random(1).shuffle(left)
    again = group_alike(left, [len(ids) + 24 for ids in left], "cpu", 1.0)
    assert [sorted(left[at] for at in batch) for batch in again] == [
        sorted(batch) for batch in whole[2:]
    ]
    assert all(len(batch) <= 64 for batch in whole) and len(whole) == 5


def test_a_batch_has_less_at_once_when_memory_ran_out() -> None:
    rows = prompts(64)
    lengths = [len(ids) + 24 for ids in rows]
    halved = group_alike(rows, lengths, "cpu", 0.5)
    assert [len(batch) for batch in halved] == [32, 32]
    assert sorted(at for batch in halved for at in batch) == list(range(64))
    long = group_alike(rows, [5000] * 64, "cpu", 1.0)
    assert {len(batch) for batch in long} <= {1, 2, 3}


@pytest.mark.parametrize("a_pass", [0, 5, 20, 1000])
def test_parts_of_a_batch_cost_the_least(a_pass: int) -> None:
    lengths = sorted(Random(2).randrange(1, 60) for _ in range(9))
    found = cut_by_length(lengths, a_pass)
    assert [at for part in found for at in range(9)[part]] == list(range(9))

    def cost(cuts: tuple[int, ...]) -> int:
        ends = [0, *cuts, 9]
        return sum(a_pass + lengths[end - 1] * (end - start) for start, end in pairwise(ends))

    least = min(cost(cuts) for count in range(9) for cuts in combinations(range(1, 9), count))
    assert cost(tuple(part.start for part in found[1:])) == least


def test_the_models_read_with_our_attention_have_no_other_plain_one() -> None:
    def source(model: str) -> str:
        module = import_module(f"transformers.models.{model}.modeling_{model}")
        return inspect.getsource(module.eager_attention_forward)

    assert {source(model) for model in PLAIN_MODELS} == {source("llama")}
