"""Sums, differences, products of decimals with unlike numbers of places."""

from collections.abc import Mapping
from random import Random
from typing import Any

from engine.types import Family
from recipes.arith.numbers import countable, lengths, numbers_of, plural, task, unordered_key

OPERATIONS = {"+": "sum", "-": "difference", "*": "product"}


def build_decimal(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`3.5 + 0.25 = ?`; operands end in no zero, the result is written as short as it goes."""
    sign = rng.choice(tuple(OPERATIONS))
    a, b = _operand(rng, params), _operand(rng, params)
    while sign == "-" and a == b:
        b = _operand(rng, params)
    places = max(a[1], b[1])
    if sign == "-" and _scaled(a, places) < _scaled(b, places):
        a, b = b, a
    x, y = decimal_text(*a), decimal_text(*b)
    key = f"{x},{y}" if sign == "-" else unordered_key(x, y)
    stratum = f"{OPERATIONS[sign]}, {plural(places, 'place')}"
    value = decimal_text(*_result(sign, a, b, places))
    return task(f"{x} {sign} {y} = ?", value, f"arith.decimal|{sign}|{key}", stratum, "decimal")


def _operand(rng: Random, params: Mapping[str, Any]) -> tuple[int, int]:
    """Digits without the point, with the number of places; the last place is never zero."""
    size, places = rng.choice(lengths(params)), rng.choice(_places(params))
    whole = rng.randrange(0 if size == 1 else 10 ** (size - 1), 10**size)
    part = 10 * rng.randrange(10 ** (places - 1)) + rng.randrange(1, 10)
    return whole * 10**places + part, places


def _result(sign: str, a: tuple[int, int], b: tuple[int, int], places: int) -> tuple[int, int]:
    if sign == "*":
        return a[0] * b[0], a[1] + b[1]
    second = _scaled(b, places)
    return _scaled(a, places) + (second if sign == "+" else -second), places


def _scaled(operand: tuple[int, int], places: int) -> int:
    digits, own = operand
    return digits * int(10 ** (places - own))


def decimal_text(digits: int, places: int) -> str:
    """The canonical spelling of digits / 10**places: no zero at the end, no lonely point."""
    whole, part = divmod(digits, 10**places)
    shown = f"{part:0{places}d}".rstrip("0")
    return f"{whole}.{shown}" if shown else str(whole)


def count_decimals(params: Mapping[str, Any]) -> int | None:
    """Sums and products: unordered pairs; differences: the larger operand first."""
    n = 0
    for size in lengths(params):
        for places in _places(params):
            n += numbers_of(size, 0) * 9 * 10 ** (places - 1)
    return countable(n * (n + 1) + n * (n - 1) // 2)


def _places(params: Mapping[str, Any]) -> range:
    least, most = params["places_low"], params["places_high"]
    if not 1 <= least <= most <= 6:
        raise ValueError(f"places_low={least}, places_high={most}: take 1 to 6, low first")
    return range(least, most + 1)


DECIMALS = (
    Family(
        id="arith.decimals",
        role="train",
        label="decimals",
        revision=1,
        build=build_decimal,
        count_keys=count_decimals,
        params={"low": 1, "high": 3, "places_low": 1, "places_high": 3},
    ),
)
