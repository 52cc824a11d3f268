"""Programs over a list with a clause for a special case, held out: the clause comes before all."""

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

from recipes.code.lists import CHANGE, FOLD, KEEP, SIGNED, draw_list
from recipes.code.steps import Done, Moves, Shape, Step


def _clause(
    name: str, words: str, test: str, holds: Callable[[Any, Any], bool], on: tuple[int, ...]
) -> Step:
    return Step(
        id=name,
        words=f"If {words}, return {{b}} at once.",
        code=f"if {test}:\n    return {{b}}",
        run=lambda v, k: Done(k[1]) if holds(v, k[0]) else v,
        values=tuple(product(on, SIGNED)),
    )


CLAUSES = (
    _clause(
        "few",
        "v has fewer than {a} numbers",
        "len(v) < {a}",
        lambda v, k: not v[k - 1 :],
        (1, 2, 3, 4),
    ),
    _clause(
        "many",
        "v has more than {a} numbers",
        "len(v) > {a}",
        lambda v, k: bool(v[k:]),
        (3, 4, 5, 6),
    ),
    _clause("has", "v contains {a}", "{a} in v", lambda v, k: v.count(k) > 0, SIGNED),
    _clause(
        "starts",
        "v begins with {a}",
        "v and v[0] == {a}",
        lambda v, k: v[:1] == [k],
        SIGNED,
    ),
)


def draw_for_clause(rng: Random, moves: Moves) -> Any:
    """A list that often meets the clause of the program, or just misses it."""
    found, (number, _) = draw_list(rng, moves), moves[0].k
    if rng.random() < 0.5:
        return found
    if moves[0].step.id in ("few", "many"):
        wanted = number + rng.choice((-1, 0, 1))
        return (found * 10 if found else [rng.randrange(-9, 10)] * 10)[:wanted]
    place = 0 if moves[0].step.id == "starts" else rng.randrange(len(found) + 1)
    return [*found[:place], number, *found[place:]]


CLAUSED = Shape(
    name="clause",
    ask="Write a Python function f(v). v is a list of integers. Mind the special case.",
    slots=(CLAUSES, KEEP, CHANGE, FOLD),
    draw=draw_for_clause,
    edges=([], [0]),
)
