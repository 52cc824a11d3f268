"""Sums of whole numbers: two operands by carries, several terms, carry chains (held out).

A carry chain is a carry that at least CHAIN columns in a row only pass on (999...+1). Sums with
one belong to the held-out family alone, so the trained family never shows the rule.
"""

from collections.abc import Mapping
from functools import cache
from math import comb
from random import Random
from typing import Any

from engine.types import Family
from recipes.arith.numbers import (
    both_lengths,
    countable,
    lengths,
    number,
    numbers_in,
    numbers_of,
    plural,
    swapped,
    task,
    unordered_key,
)

CHAIN = 3
HEADS = tuple(head for head in range(100) if head % 10 != 9)  # before a run of nines, or none


def build_sum(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`48 + 27 = ?`, with every possible number of carries equally often."""
    first, second = both_lengths(params)
    long, short = sorted((rng.choice(first), rng.choice(second)), reverse=True)
    patterns = carry_patterns(long, short)
    a, b = 0, 0
    while not a or longest_chain(a, b) >= CHAIN:
        carries = rng.choice(tuple(patterns))
        a, b = _columns(rng, long, short, rng.choice(patterns[carries]))
    x, y = swapped(rng, a, b)
    stratum = f"{plural(long, 'digit')}, {plural(carries, 'carry')}"
    return task(f"{x} + {y} = ?", a + b, f"arith.add|{unordered_key(a, b)}", stratum)


@cache
def carry_patterns(long: int, short: int) -> dict[int, tuple[tuple[int, ...], ...]]:
    """For each number of carries, the ways to spread it over the columns (ones column first)."""
    found: dict[int, list[tuple[int, ...]]] = {}
    for bits in range(2**long):
        pattern = tuple(bits >> column & 1 for column in range(long))
        # above the shorter number a column can only pass a carry on, so a long run is a chain
        passed_on = all(pattern[c - 1] for c in range(short, long) if pattern[c])
        if passed_on and sum(pattern[short:]) < CHAIN:
            found.setdefault(sum(pattern), []).append(pattern)
    return {carries: tuple(found[carries]) for carries in sorted(found)}


def _columns(rng: Random, long: int, short: int, pattern: tuple[int, ...]) -> tuple[int, int]:
    a = b = carried = 0
    for column, carry in enumerate(pattern):
        lead_a, lead_b = column == long - 1, column == short - 1
        pairs = column_pairs(carried, carry, lead_a, lead_b, column < short)
        x, y = rng.choice(pairs)
        a, b, carried = a + x * 10**column, b + y * 10**column, carry
    return a, b


@cache
def column_pairs(
    carried: int, carry: int, lead_a: bool, lead_b: bool, both: bool
) -> tuple[tuple[int, int], ...]:
    """The digit pairs of one column that turn a carry in (0 or 1) into a carry out (0 or 1)."""
    ys = range(1 if lead_b else 0, 10) if both else range(1)
    xs = range(1 if lead_a else 0, 10)
    return tuple((x, y) for x in xs for y in ys if (x + y + carried >= 10) == bool(carry))


def longest_chain(a: int, b: int) -> int:
    """The most columns in a row that only pass a carry on."""
    best = run = carried = 0
    while a or b:
        a, x = divmod(a, 10)
        b, y = divmod(b, 10)
        run = run + 1 if carried and x + y == 9 else 0
        best, carried = max(best, run), int(x + y + carried >= 10)
    return best


def count_sums(params: Mapping[str, Any]) -> int | None:
    """Unordered pairs without a carry chain."""
    first, second = both_lengths(params)
    total = 0
    for long, short in {(max(a, b), min(a, b)) for a in first for b in second}:
        ordered = _without_chain(long, short)
        # x + x has no column sum of 9, so every pair of equal numbers is free of chains
        total += ordered if long > short else (ordered + numbers_of(long)) // 2
    return countable(total)


def _without_chain(long: int, short: int) -> int:
    """Ordered pairs of the two lengths without a chain, column by column over (carry, run)."""
    states = {(0, 0): 1}
    for column in range(long):
        after: dict[tuple[int, int], int] = {}
        for (carried, run), ways in states.items():
            for carry in (0, 1):
                both, tops = column < short, (column == long - 1, column == short - 1)
                for x, y in column_pairs(carried, carry, *tops, both):
                    state = (carry, run + 1 if carried and x + y == 9 else 0)
                    if state[1] < CHAIN:
                        after[state] = after.get(state, 0) + ways
        states = after
    return sum(states.values())


def build_terms(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`3 + 14 + 9 = ?` with `terms_low` to `terms_high` terms."""
    sizes = lengths(params)
    terms = [number(rng, rng.choice(sizes)) for _ in range(rng.choice(_terms(params)))]
    longest = len(str(max(terms)))
    prompt = " + ".join(str(term) for term in terms) + " = ?"
    stratum = f"{len(terms)} terms, up to {plural(longest, 'digit')}"
    return task(prompt, sum(terms), f"arith.add|{unordered_key(*terms)}", stratum)


def count_terms(params: Mapping[str, Any]) -> int | None:
    """Multisets of numbers, for each number of terms."""
    numbers = numbers_in(lengths(params))
    return countable(sum(comb(numbers + terms - 1, terms) for terms in _terms(params)))


def _terms(params: Mapping[str, Any]) -> range:
    least, most = params["terms_low"], params["terms_high"]
    if not 3 <= least <= most <= 20:
        raise ValueError(f"terms_low={least}, terms_high={most}: take 3 to 20, low first")
    return range(least, most + 1)


def build_chain(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`Add 47999 and 3.`: a carry made in the ones runs through `low` to `high` columns."""
    run = rng.choice(_runs(params))
    u, v = rng.choice(column_pairs(0, 1, True, True, True))
    x, y = _nines(rng, run) if rng.random() < 0.5 else _pairs_of_nine(rng, run)
    a, b = swapped(rng, 10 * x + u, 10 * y + v)
    key = f"arith.add|{unordered_key(a, b)}"
    return task(f"Add {a} and {b}.", a + b, key, f"a carry through {run} columns")


def _nines(rng: Random, run: int) -> tuple[int, int]:
    return (rng.choice(HEADS) + 1) * 10**run - 1, 0


def _pairs_of_nine(rng: Random, run: int) -> tuple[int, int]:
    """Digits that make nine column by column, half of the time below one more column."""
    if rng.random() < 0.5:
        x = rng.randrange(10 ** (run - 1), 9 * 10 ** (run - 1))
        return x, 10**run - 1 - x
    x = rng.randrange(10**run)
    top, other = rng.choice(column_pairs(1, 0, True, True, True))
    return top * 10**run + x, (other + 1) * 10**run - 1 - x


def count_chains(params: Mapping[str, Any]) -> int | None:
    """Ones columns x heads, over the runs of nines, then over those of pairs that make nine."""
    ones = len(column_pairs(0, 1, True, True, True))
    tops = len(column_pairs(1, 0, True, True, True))
    total = 0
    for run in _runs(params):
        total += ones * len(HEADS)
        total += ones * (8 * 10 ** (run - 1) + tops * 10**run) // 2
    return countable(total)


def _runs(params: Mapping[str, Any]) -> range:
    runs = lengths(params)
    if runs[0] < CHAIN:
        raise ValueError(f"low={runs[0]}: a carry chain runs through at least {CHAIN} columns")
    return runs


SUMS = (
    Family(
        id="arith.add_carry",
        role="train",
        label="sums with carries",
        revision=1,
        build=build_sum,
        count_keys=count_sums,
        params={"low": 2, "high": 8, "second_low": 0, "second_high": 0},
    ),
    Family(
        id="arith.sum_terms",
        role="train",
        label="sums of several terms",
        revision=1,
        build=build_terms,
        count_keys=count_terms,
        params={"low": 1, "high": 4, "terms_low": 3, "terms_high": 5},
    ),
    Family(
        id="arith.carry_chain",
        role="held_out",
        label="carry chains",
        revision=1,
        build=build_chain,
        count_keys=count_chains,
        params={"low": 3, "high": 6},
    ),
)
