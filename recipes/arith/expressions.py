"""Expressions of three or four numbers in which precedence decides the value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from engine.types import Family
from recipes.arith.numbers import countable, lengths, number, numbers_in, plural, task

LEAST = 2  # one-digit operands from 2 on: times one shows no precedence


@dataclass(kw_only=True, slots=True, frozen=True)
class Form:
    """One shape of expression: ways to write it, its value, its meaning, how many there are."""

    label: str
    texts: tuple[str, ...]
    value: Callable[[int, int, int, int], int]
    key: Callable[[int, int, int, int], str]
    keys: Callable[[int], int]  # from the number of different operands


def either(sign: str, a: int | str, b: int | str) -> str:
    """A sum or product as it stands in a canonical key, whichever operand came first."""
    return f"({sign.join(sorted((str(a), str(b))))})"


def pairs(n: int) -> int:
    """Unordered pairs out of n, with equal ones."""
    return n * (n + 1) // 2


FORMS = (
    Form(
        label="sum with a product",
        texts=("{a} + {b} * {c}", "{b} * {c} + {a}"),
        value=lambda a, b, c, d: a + b * c,
        key=lambda a, b, c, d: f"{a}+{either('*', b, c)}",
        keys=lambda n: n * pairs(n),
    ),
    Form(
        label="number minus a product",
        texts=("{a} - {b} * {c}",),
        value=lambda a, b, c, d: a - b * c,
        key=lambda a, b, c, d: f"{a}-{either('*', b, c)}",
        keys=lambda n: n * pairs(n),
    ),
    Form(
        label="product minus a number",
        texts=("{b} * {c} - {a}",),
        value=lambda a, b, c, d: b * c - a,
        key=lambda a, b, c, d: f"{either('*', b, c)}-{a}",
        keys=lambda n: n * pairs(n),
    ),
    Form(
        label="sum in brackets",
        texts=("({a} + {b}) * {c}", "{c} * ({a} + {b})"),
        value=lambda a, b, c, d: (a + b) * c,
        key=lambda a, b, c, d: f"{c}*{either('+', a, b)}",
        keys=lambda n: n * pairs(n),
    ),
    Form(
        label="difference in brackets",
        texts=("({a} - {b}) * {c}", "{c} * ({a} - {b})"),
        value=lambda a, b, c, d: (a - b) * c,
        key=lambda a, b, c, d: f"{c}*({a}-{b})",
        keys=lambda n: n * n * n,
    ),
    Form(
        label="sum of two products",
        texts=("{a} * {b} + {c} * {d}",),
        value=lambda a, b, c, d: a * b + c * d,
        key=lambda a, b, c, d: either("+", either("*", a, b), either("*", c, d)),
        keys=lambda n: pairs(pairs(n)),
    ),
)


def build_expression(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """`7 + 5 * 3 = ?`; some values are negative."""
    sizes, form = lengths(params), rng.choice(FORMS)
    numbers = [number(rng, rng.choice(sizes), LEAST) for _ in range(4)]
    a, b, c, d = numbers
    prompt = rng.choice(form.texts).format(a=a, b=b, c=c, d=d) + " = ?"
    used = numbers if "{d}" in form.texts[0] else numbers[:3]
    stratum = f"{form.label}, up to {plural(len(str(max(used))), 'digit')}"
    return task(prompt, form.value(*numbers), f"arith.expr|{form.key(*numbers)}", stratum)


def count_expressions(params: Mapping[str, Any]) -> int | None:
    """Over the forms, with operands that may trade places counted once."""
    operands = numbers_in(lengths(params), LEAST)
    return countable(sum(form.keys(operands) for form in FORMS))


EXPRESSIONS = (
    Family(
        id="arith.expression",
        role="train",
        label="expressions with precedence",
        revision=1,
        build=build_expression,
        count_keys=count_expressions,
        params={"low": 1, "high": 2},
    ),
)
