"""Which training rows are computed together: steps by seed, parts of a step by length."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from engine.models.renderer import render_row

# What one more pass through the model costs beside its tokens, in tokens: measured on a CPU with
# 135M parameters (60 in bfloat16, 35 in float32); a GPU is all but idle on batches of this size.
PASS_TOKENS = {"cpu": 48, "cuda": 4096}


@dataclass(kw_only=True, slots=True, frozen=True)
class TrainRow:
    """A rendered row: token ids, of which those from `start` on carry loss."""

    ids: list[int]
    start: int

    @property
    def targets(self) -> int:
        """How many tokens carry loss."""
        return len(self.ids) - self.start


def read_rows(tokenizer: Any, rows_file: Path, max_length: int) -> list[TrainRow]:
    """Render a JSONL file of rows; rows that are too long or have nothing to learn are left out."""
    rows = []
    with open(rows_file, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            ids, start = render_row(
                tokenizer, record["messages"], record["completion"], record["ends"]
            )
            if start < len(ids) <= max_length:
                rows.append(TrainRow(ids=ids, start=start))
    return rows


def plan_steps(rows: int, batch_size: int, epochs: float, seed: int) -> list[list[int]]:
    """Row numbers of every step: a pure function of its arguments.

    Each epoch is a fresh shuffle made from (seed, epoch); every batch is a fair draw, whatever the
    lengths in it. A part of an epoch ends after that part of its steps.
    """
    per_epoch = -(-rows // batch_size)
    wanted = max(1, round(per_epoch * epochs))
    steps: list[list[int]] = []
    while len(steps) < wanted:
        order = list(range(rows))
        Random(f"{seed}:{len(steps) // per_epoch}").shuffle(order)
        steps += [order[at : at + batch_size] for at in range(0, rows, batch_size)]
    return steps[:wanted]


def split_step(rows: Sequence[TrainRow], most_rows: int, pass_tokens: int) -> list[list[TrainRow]]:
    """Cut a step into parts that begin alike and are about as long, at the least cost.

    The parts are for computing alone: their gradients add up to those of the whole step.
    """
    ordered = sorted(rows, key=lambda row: (row.ids[:8], len(row.ids)))
    cheapest = [0]
    cut_before = [0]
    for end in range(1, len(ordered) + 1):
        costs = _costs_up_to(ordered[max(0, end - most_rows) : end], pass_tokens)
        first = end - len(costs)
        cost, start = min(
            (cheapest[first + at] + cost, first + at) for at, cost in enumerate(costs)
        )
        cheapest.append(cost)
        cut_before.append(start)
    return _cut(ordered, cut_before)


def _cut(ordered: list[TrainRow], cut_before: list[int]) -> list[list[TrainRow]]:
    parts = []
    end = len(ordered)
    while end:
        parts.append(ordered[cut_before[end] : end])
        end = cut_before[end]
    return parts[::-1]


def _costs_up_to(rows: Sequence[TrainRow], pass_tokens: int) -> list[int]:
    """Cost in tokens of rows[at:] as one part, for each `at`."""
    costs = []
    last = rows[-1]
    longest, shared = 0, last.start - 1
    for count, row in enumerate(reversed(rows), start=1):
        longest = max(longest, len(row.ids))
        shared = min(shared, row.start - 1, _alike(row.ids, last.ids))
        saved = max(0, shared * (count - 1) - pass_tokens)
        costs.append(pass_tokens + longest * count - saved)
    return costs[::-1]


def shared_beginning(part: Sequence[TrainRow], pass_tokens: int) -> int:
    """How many tokens to compute once for all rows of a part; 0 when that does not pay.

    It pays when more is saved than the pass of its own costs. It stops short of the last prompt
    token, from which the first target is predicted.
    """
    shared = min(min(row.start - 1, _alike(row.ids, part[0].ids)) for row in part)
    return shared if shared * (len(part) - 1) > pass_tokens else 0


def _alike(one: list[int], other: list[int]) -> int:
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))
