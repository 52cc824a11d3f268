"""Conversion between bases: 2, 8, 16 in the trained family, 7, 12 in the held-out one."""

from collections.abc import Mapping
from random import Random
from typing import Any

from engine.types import Family
from recipes.arith.numbers import countable, lengths, number, numbers_in, task

ALPHABET = "0123456789ABCDEF"
TRAINED = (2, 8, 16)
OTHERS = (7, 12)


def build_conversion(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`45 to base 2 = ?` or the way back, `base 2: 101101 to base 10 = ?`."""
    value, base, outward = _draw(rng, params, TRAINED)
    if outward:
        return _task(f"{value} to base {base} = ?", f"# to base {base} = ?", value, base, True)
    shown = in_base(value, base)
    template = f"base {base}: # to base 10 = ?"
    return _task(template.replace("#", shown), template, value, base, False)


def build_other_base(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """The same task in a base that is never trained, in other words."""
    value, base, outward = _draw(rng, params, OTHERS)
    digits = f"digits 0 to {ALPHABET[base - 1]}"
    if base > 10:
        digits = f"digits 0 to 9, then {' and '.join(ALPHABET[10:base])}"
    if outward:
        template = f"Write # as a number in base {base} ({digits})."
        return _task(template.replace("#", str(value)), template, value, base, True)
    template = f"# is written in base {base} ({digits}). Which ordinary number is it?"
    return _task(template.replace("#", in_base(value, base)), template, value, base, False)


def _draw(rng: Random, params: Mapping[str, Any], bases: tuple[int, ...]) -> tuple[int, int, bool]:
    return number(rng, rng.choice(_sizes(params))), rng.choice(bases), rng.random() < 0.5


def _task(prompt: str, template: str, value: int, base: int, outward: bool) -> dict[str, Any]:
    way = f"10>{base}" if outward else f"{base}>10"
    stratum = f"{'to' if outward else 'from'} base {base}, {len(str(value))} decimal digits"
    key = f"arith.base|{way}|{value}"
    if not outward:
        return task(prompt, value, key, stratum, template=template)
    fields = task(prompt, in_base(value, base), key, stratum, "digits", template)
    fields["checker"]["base"] = base
    return fields


def in_base(value: int, base: int) -> str:
    """The digits of a positive number in a base up to 16, in capitals."""
    digits = ""
    while value:
        value, digit = divmod(value, base)
        digits = ALPHABET[digit] + digits
    return digits


def _sizes(params: Mapping[str, Any]) -> range:
    sizes = lengths(params)
    if sizes[0] < 2:
        raise ValueError(f"low={sizes[0]}: one-digit numbers look the same in most bases, take 2")
    return sizes


def count_conversions(params: Mapping[str, Any]) -> int | None:
    """Numbers x bases x the two ways."""
    return countable(numbers_in(_sizes(params)) * len(TRAINED) * 2)


def count_other_bases(params: Mapping[str, Any]) -> int | None:
    """Numbers x bases x the two ways."""
    return countable(numbers_in(_sizes(params)) * len(OTHERS) * 2)


BASES = (
    Family(
        id="arith.base_conversion",
        role="train",
        label="conversion between bases 2, 8, 10, 16",
        revision=1,
        build=build_conversion,
        count_keys=count_conversions,
        params={"low": 2, "high": 4},
    ),
    Family(
        id="arith.other_bases",
        role="held_out",
        label="bases 7 and 12",
        revision=1,
        build=build_other_base,
        count_keys=count_other_bases,
        params={"low": 2, "high": 4},
    ),
)
