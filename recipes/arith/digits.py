"""Held-out tasks about the digits of numbers: columns in words, reversed digits, a missing digit."""

from collections.abc import Mapping
from random import Random
from typing import Any

from engine.types import Family
from recipes.arith.numbers import countable, lengths, number, numbers_in, plural, task
from recipes.arith.numbers import unordered_key as either

COLUMNS = ("ones", "tens", "hundreds", "thousands", "ten thousands")
MOST = 29  # of one column


def build_columns(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`4 hundreds, 17 tens and 25 ones`: columns that hold more than nine, in any order."""
    columns = rng.choice(_column_counts(params))
    amounts = [9] * columns
    while max(amounts) < 10:
        amounts = [rng.randrange(2, MOST + 1) for _ in range(columns)]
    parts = [f"{amount} {name}" for amount, name in zip(amounts, COLUMNS, strict=False)]
    rng.shuffle(parts)
    prompt = f"What number is {', '.join(parts[:-1])} and {parts[-1]}?"
    value = sum(amount * 10**column for column, amount in enumerate(amounts))
    key = f"arith.columns|{','.join(map(str, amounts))}"
    return task(prompt, value, key, f"{columns} columns")


def _column_counts(params: Mapping[str, Any]) -> range:
    counts = lengths(params)
    if counts[0] < 2 or counts[-1] > len(COLUMNS):
        raise ValueError(f"low={counts[0]}, high={counts[-1]}: take 2 to {len(COLUMNS)} columns")
    return counts


def count_columns(params: Mapping[str, Any]) -> int | None:
    """All amounts of 2 to MOST but those that stay below ten in every column."""
    return countable(sum((MOST - 1) ** n - 8**n for n in _column_counts(params)))


def build_reversed(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """Operands written ones first, the sum in the usual order."""
    sizes = _at_least_two(params)
    a, b = (_no_final_zero(rng, rng.choice(sizes)) for _ in range(2))
    longest = max(len(str(a)), len(str(b)))
    prompt = (
        "Each number here is written backwards, ones digit first: "
        f"{_backwards(a)} + {_backwards(b)}. What is the sum, in the usual order?"
    )
    key = f"arith.reversed|{either(a, b)}"
    return task(prompt, a + b, key, f"up to {plural(longest, 'digit')}")


def _no_final_zero(rng: Random, digits: int) -> int:
    return number(rng, digits - 1) * 10 + rng.randrange(1, 10)


def _backwards(value: int) -> str:
    return str(value)[::-1]


def count_reversed(params: Mapping[str, Any]) -> int | None:
    """Unordered pairs of numbers without a zero at the end."""
    n = sum(81 * 10 ** (digits - 2) for digits in _at_least_two(params))
    return countable(n * (n + 1) // 2)


def build_missing(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`4_7 + 85 = 502`: the digit behind the blank, each of the ten equally often."""
    sizes = _at_least_two(params)
    a, b = number(rng, rng.choice(sizes)), number(rng, rng.choice(sizes))
    shown = str(a)
    place = rng.randrange(1, len(shown))  # the leading digit could not be zero
    blank, total = f"{shown[:place]}_{shown[place + 1 :]}", a + b
    added = rng.random() < 0.5
    equation = f"{blank} + {b} = {total}" if added else f"{total} - {blank} = {b}"
    key = f"arith.missing|{'+' if added else '-'}|{blank},{b},{total}"
    prompt = f"One digit is hidden by _ in this: {equation}. Which digit is it?"
    template = f"One digit is hidden by _ in this: #{' + # = #' if added else ' - # = #'}."
    stratum = f"{'sum' if added else 'difference'}, {plural(len(shown), 'digit')}"
    return task(prompt, int(shown[place]), key, stratum, template=template)


def count_missing(params: Mapping[str, Any]) -> int | None:
    """Numbers with one of their digits but the first hidden x the other number x two signs."""
    sizes = _at_least_two(params)
    hidden = sum(numbers_in(range(size, size + 1)) * (size - 1) for size in sizes)
    return countable(hidden * numbers_in(sizes) * 2)


def _at_least_two(params: Mapping[str, Any]) -> range:
    sizes = lengths(params)
    if sizes[0] < 2:
        raise ValueError(f"low={sizes[0]}: these tasks need numbers of 2 digits or more")
    return sizes


DIGITS = (
    Family(
        id="arith.column_words",
        role="held_out",
        label="columns in words",
        revision=1,
        build=build_columns,
        count_keys=count_columns,
        params={"low": 2, "high": 4},
    ),
    Family(
        id="arith.reversed_digits",
        role="held_out",
        label="digits written backwards",
        revision=1,
        build=build_reversed,
        count_keys=count_reversed,
        params={"low": 2, "high": 4},
    ),
    Family(
        id="arith.missing_digit",
        role="held_out",
        label="a missing digit",
        revision=1,
        build=build_missing,
        count_keys=count_missing,
        params={"low": 2, "high": 4},
    ),
)
