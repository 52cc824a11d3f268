"""Numbers of chosen lengths, with the fields that every arithmetic task shares."""

import re
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

MOST_DIGITS = 12
COUNTABLE = 10_000_000  # larger key spaces are practically without end

_NUMBER = re.compile(r"\d+")


def task(
    prompt: str,
    value: int | str,
    key: str,
    stratum: str,
    kind: str = "integer",
    template: str | None = None,
) -> dict[str, Any]:
    """The fields of a Task; the template is the prompt with its numbers masked unless given."""
    worked = str(value)
    return {
        "prompt": prompt,
        "checker": {"kind": kind, "value": worked},
        "worked": worked,
        "canonical_key": key,
        "template_id": template or _NUMBER.sub("#", prompt),
        "stratum": stratum,
    }


def unordered_key(*values: int | str) -> str:
    """Values whose order means nothing, as they stand in a canonical key."""
    texts = sorted((str(value) for value in values), key=lambda text: (len(text), text))
    return f"sorted({','.join(texts)})"


def lengths(params: Mapping[str, Any], low: str = "low", high: str = "high") -> range:
    """The digit lengths between two parameters; a ValueError says which one is wrong."""
    least, most = params[low], params[high]
    if not 1 <= least <= most <= MOST_DIGITS:
        raise ValueError(
            f"{low}={least}, {high}={most}: take 1 <= {low} <= {high} <= {MOST_DIGITS}"
        )
    return range(least, most + 1)


def both_lengths(params: Mapping[str, Any]) -> tuple[range, range]:
    """The digit lengths of two operands; `second_low` 0 means that both have the same."""
    first = lengths(params)
    return first, lengths(params, "second_low", "second_high") if params["second_low"] else first


@cache
def ordered_lengths(first: range, second: range) -> tuple[tuple[int, int], ...]:
    """The pairs of lengths whose first number can be the larger one; ValueError when none can."""
    found = tuple((long, short) for long in first for short in second if short <= long)
    if not found:
        raise ValueError(f"the second number has {second[0]} digits or more, the first fewer")
    return found


def number(rng: Random, digits: int, least: int = 1) -> int:
    """A number of exactly that many digits; `least` is where one-digit numbers begin."""
    return rng.randrange(least if digits == 1 else 10 ** (digits - 1), 10**digits)


def numbers_of(digits: int, least: int = 1) -> int:
    """How many different values `number` has."""
    return 10 - least if digits == 1 else 9 * 10 ** (digits - 1)


def numbers_in(span: range, least: int = 1) -> int:
    """How many numbers there are with a length in the span."""
    return sum(numbers_of(digits, least) for digits in span)


def unordered(span: range, other: range, least: int = 1) -> int:
    """How many unordered pairs take one number from each span of lengths."""
    total = 0
    for a, b in {(min(a, b), max(a, b)) for a in span for b in other}:
        n = numbers_of(a, least)
        total += n * (n + 1) // 2 if a == b else n * numbers_of(b, least)
    return total


def countable(keys: int) -> int | None:
    """A count of keys as Family.count_keys gives it: None when practically without end."""
    return keys if keys <= COUNTABLE else None


def plural(count: int, word: str) -> str:
    """ "1 carry", "2 digits": the plurals that strata need."""
    if count == 1:
        return f"1 {word}"
    return f"{count} {word[:-1]}ies" if word.endswith("y") else f"{count} {word}s"


def swapped(rng: Random, a: int, b: int) -> tuple[int, int]:
    """The two in either order, so that the longer one does not always come first."""
    return (b, a) if rng.random() < 0.5 else (a, b)
