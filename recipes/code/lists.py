"""Programs over a list of integers: keep some, change each, return one number."""

from random import Random
from typing import Any

from recipes.code.steps import Moves, Shape, Step, draw_number

SIGNED = tuple(range(-9, 10))
FROM_1, FROM_2, FROM_3 = tuple(range(1, 10)), tuple(range(2, 10)), tuple(range(3, 10))

KEEP = (
    Step(
        id="above",
        words="Keep the numbers greater than {k}.",
        code="v = [x for x in v if x > {k}]",
        run=lambda v, k: [x for x in v if x > k],
        values=SIGNED,
    ),
    Step(
        id="below",
        words="Keep the numbers less than {k}.",
        code="v = [x for x in v if x < {k}]",
        run=lambda v, k: [x for x in v if x < k],
        values=SIGNED,
    ),
    Step(
        id="even",
        words="Keep the even numbers.",
        code="v = [x for x in v if x % 2 == 0]",
        run=lambda v, _: [x for x in v if not x & 1],
    ),
    Step(
        id="odd",
        words="Keep the odd numbers.",
        code="v = [x for x in v if x % 2 == 1]",
        run=lambda v, _: [x for x in v if x & 1],
    ),
    Step(
        id="multiples",
        words="Keep the multiples of {k}.",
        code="v = [x for x in v if x % {k} == 0]",
        run=lambda v, k: [x for x in v if x == x // k * k],
        values=FROM_3,
    ),
    Step(
        id="others",
        words="Drop the multiples of {k}.",
        code="v = [x for x in v if x % {k} != 0]",
        run=lambda v, k: [x for x in v if x != x // k * k],
        values=FROM_3,
    ),
)
CHANGE = (
    Step(
        id="plus",
        words="Add {k} to each number.",
        code="v = [x + {k} for x in v]",
        run=lambda v, k: [k + x for x in v],
        values=FROM_1,
    ),
    Step(
        id="minus",
        words="Subtract {k} from each number.",
        code="v = [x - {k} for x in v]",
        run=lambda v, k: [-k + x for x in v],
        values=FROM_1,
    ),
    Step(
        id="times",
        words="Multiply each number by {k}.",
        code="v = [x * {k} for x in v]",
        run=lambda v, k: [sum([x] * k) for x in v],
        values=FROM_2,
    ),
    Step(
        id="square",
        words="Square each number.",
        code="v = [x * x for x in v]",
        run=lambda v, _: [x**2 for x in v],
    ),
    Step(
        id="negate",
        words="Negate each number.",
        code="v = [-x for x in v]",
        run=lambda v, _: [0 - x for x in v],
    ),
    Step(
        id="absolute",
        words="Take the absolute value of each number.",
        code="v = [abs(x) for x in v]",
        run=lambda v, _: [max(x, -x) for x in v],
    ),
    Step(
        id="modulo",
        words="Take each number modulo {k}.",
        code="v = [x % {k} for x in v]",
        run=lambda v, k: [x - x // k * k for x in v],
        values=FROM_3,
    ),
    Step(
        id="quotient",
        words="Divide each number by {k}, rounding down.",
        code="v = [x // {k} for x in v]",
        run=lambda v, k: [(x - x % k) // k for x in v],
        values=FROM_2,
    ),
)
FOLD = (
    Step(
        id="sum",
        words="Return the sum.",
        code="return sum(v)",
        run=lambda v, _: sum(v),
    ),
    Step(
        id="largest",
        words="Return the largest, or 0 if there is none.",
        code="return max(v, default=0)",
        run=lambda v, _: [0, *sorted(v)][-1],
    ),
    Step(
        id="smallest",
        words="Return the smallest, or 0 if there is none.",
        code="return min(v, default=0)",
        run=lambda v, _: [*sorted(v), 0][0],
    ),
    Step(
        id="first",
        words="Return the first, or 0 if there is none.",
        code="return v[0] if v else 0",
        run=lambda v, _: [*v, 0][0],
    ),
    Step(
        id="last",
        words="Return the last, or 0 if there is none.",
        code="return v[-1] if v else 0",
        run=lambda v, _: [0, *v][-1],
    ),
    Step(
        id="weighed",
        words="Return the sum of index times number.",
        code="return sum(i * x for i, x in enumerate(v))",
        run=lambda v, _: sum(n * v[n] for n in range(len(v))),
    ),
)


def draw_list(rng: Random, moves: Moves) -> Any:
    """Up to ten numbers, some of them twice."""
    found = [draw_number(rng, moves) for _ in range(rng.randrange(11))]
    return found + found[: rng.randrange(3)] if rng.random() < 0.3 else found


LISTS = Shape(
    name="list",
    ask="Write a Python function f(v). v is a list of integers.",
    slots=(KEEP, CHANGE, FOLD),
    draw=draw_list,
    edges=([], [0]),
)
