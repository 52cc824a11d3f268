"""Differences of two whole numbers, by borrows, with runs of zeros to borrow through."""

from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

from engine.types import Family
from recipes.arith.numbers import (
    both_lengths,
    countable,
    numbers_of,
    ordered_lengths,
    plural,
    task,
)

ZERO_SHARE = 0.3  # of the tasks in which a borrow can be made to run through zeros


def build_difference(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`402 - 37 = ?`, never negative or zero, with every number of borrows equally often."""
    long, short = rng.choice(ordered_lengths(*both_lengths(params)))
    patterns = borrow_patterns(long, short)
    a = b = 0
    while a == b:
        borrows = rng.choice(tuple(patterns))
        zeros = rng.random() < ZERO_SHARE
        a, b, run = _columns(rng, long, short, rng.choice(patterns[borrows]), zeros)
    stratum = f"{plural(long, 'digit')}, {plural(borrows, 'borrow')}"
    if run:
        stratum += " through zeros"
    return task(f"{a} - {b} = ?", a - b, f"arith.sub|{a},{b}", stratum)


@cache
def borrow_patterns(long: int, short: int) -> dict[int, tuple[tuple[int, ...], ...]]:
    """For each number of borrows, the ways to spread it over the columns (ones column first)."""
    found: dict[int, list[tuple[int, ...]]] = {}
    for bits in range(2 ** (long - 1)):  # the leading column never borrows
        pattern = tuple(bits >> column & 1 for column in range(long))
        # above the shorter number a column borrows only when one is taken from its zero
        if all(pattern[c - 1] for c in range(short, long) if pattern[c]):
            found.setdefault(sum(pattern), []).append(pattern)
    return {borrows: tuple(found[borrows]) for borrows in sorted(found)}


def _columns(
    rng: Random, long: int, short: int, pattern: tuple[int, ...], zeros: bool
) -> tuple[int, int, bool]:
    """Both numbers, and whether a borrow runs through a zero of the first."""
    a = b = borrowed = 0
    through = False
    for column, borrow in enumerate(pattern):
        lead_a, lead_b = column == long - 1, column == short - 1
        passing = bool(borrowed and borrow)
        pairs = column_pairs(borrowed, borrow, lead_a, lead_b, column < short, zeros and passing)
        x, y = rng.choice(pairs)
        through = through or (passing and x == 0)
        a, b, borrowed = a + x * 10**column, b + y * 10**column, borrow
    return a, b, through


@cache
def column_pairs(
    borrowed: int, borrow: int, lead_a: bool, lead_b: bool, both: bool, zero: bool
) -> tuple[tuple[int, int], ...]:
    """The digit pairs of one column that turn a borrow taken (0 or 1) into one made (0 or 1)."""
    xs = range(1) if zero else range(1 if lead_a else 0, 10)
    ys = range(1 if lead_b else 0, 10) if both else range(1)
    return tuple((x, y) for x in xs for y in ys if (x - y - borrowed < 0) == bool(borrow))


def count_differences(params: Mapping[str, Any]) -> int | None:
    """Ordered pairs with the larger number first."""
    total = 0
    for long, short in ordered_lengths(*both_lengths(params)):
        n = numbers_of(long)
        total += n * (n - 1) // 2 if long == short else n * numbers_of(short)
    return countable(total)


DIFFERENCES = (
    Family(
        id="arith.subtract_borrow",
        role="train",
        label="differences with borrows",
        revision=1,
        build=build_difference,
        count_keys=count_differences,
        params={"low": 2, "high": 8, "second_low": 0, "second_high": 0},
    ),
)
