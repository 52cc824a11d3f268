"""Products of two whole numbers, with their inverse: division with a remainder."""

from collections.abc import Mapping
from random import Random
from typing import Any

from engine.types import Family
from recipes.arith.numbers import (
    both_lengths,
    countable,
    lengths,
    number,
    numbers_of,
    ordered_lengths,
    plural,
    swapped,
    task,
    unordered,
    unordered_key,
)

LEAST = 2  # a one-digit factor or divisor: times or by one shows nothing


def build_product(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`47 * 6 = ?`, in either order."""
    first, second = both_lengths(params)
    a, b = number(rng, rng.choice(first), LEAST), number(rng, rng.choice(second), LEAST)
    x, y = swapped(rng, a, b)
    long, short = max(len(str(a)), len(str(b))), min(len(str(a)), len(str(b)))
    key = f"arith.mul|{unordered_key(a, b)}"
    return task(f"{x} * {y} = ?", a * b, key, f"{long} by {plural(short, 'digit')}")


def count_products(params: Mapping[str, Any]) -> int | None:
    """Unordered pairs of factors."""
    return countable(unordered(*both_lengths(params), least=LEAST))


def build_division(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`1234 / 56 = ? (q r R)`, answered `22 r 2`; the divisor is never the larger one."""
    long, short = rng.choice(_sizes(params))
    a, b = number(rng, long, LEAST), number(rng, short, LEAST)
    if a < b:
        a, b = b, a
    q, r = divmod(a, b)
    stratum = f"{long} by {plural(short, 'digit')}"
    key = f"arith.divmod|{a},{b}"
    return task(f"{a} / {b} = ? (q r R)", f"{q} r {r}", key, stratum, "quotient_remainder")


def count_divisions(params: Mapping[str, Any]) -> int | None:
    """Ordered pairs whose first number is not the smaller one."""
    total = 0
    for long, short in _sizes(params):
        n = numbers_of(long, LEAST)
        total += n * (n + 1) // 2 if short == long else n * numbers_of(short, LEAST)
    return countable(total)


def _sizes(params: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    return ordered_lengths(lengths(params), lengths(params, "divisor_low", "divisor_high"))


PRODUCTS = (
    Family(
        id="arith.product",
        role="train",
        label="products",
        revision=1,
        build=build_product,
        count_keys=count_products,
        params={"low": 1, "high": 4, "second_low": 0, "second_high": 0},
    ),
    Family(
        id="arith.long_division",
        role="train",
        label="division with remainder",
        revision=1,
        build=build_division,
        count_keys=count_divisions,
        params={"low": 2, "high": 5, "divisor_low": 1, "divisor_high": 2},
    ),
)
