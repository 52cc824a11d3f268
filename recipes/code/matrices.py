"""Programs over a matrix: keep rows, arrange them anew, change each number, return what results."""

from random import Random
from typing import Any

from recipes.code.lists import FROM_1, FROM_2, SIGNED
from recipes.code.steps import Moves, Shape, Step, draw_number

ROWS = (
    Step(
        id="heavy",
        words="Keep the rows whose sum is greater than {k}.",
        code="v = [r for r in v if sum(r) > {k}]",
        run=lambda v, k: [row for row in v if sum(row) >= k + 1],
        values=SIGNED,
    ),
    Step(
        id="light",
        words="Keep the rows whose sum is less than {k}.",
        code="v = [r for r in v if sum(r) < {k}]",
        run=lambda v, k: [row for row in v if sum(row) <= k - 1],
        values=SIGNED,
    ),
    Step(
        id="first_above",
        words="Keep the rows whose first number is greater than {k}.",
        code="v = [r for r in v if r[0] > {k}]",
        run=lambda v, k: [row for row in v if next(iter(row)) > k],
        values=SIGNED,
    ),
    Step(
        id="last_below",
        words="Keep the rows whose last number is less than {k}.",
        code="v = [r for r in v if r[-1] < {k}]",
        run=lambda v, k: [row for row in v if next(reversed(row)) < k],
        values=SIGNED,
    ),
)


def columns(v: list[list[int]]) -> list[list[int]]:
    """The columns as rows; of no row, none."""
    return [[row[n] for row in v] for n in range(len(v[0]))] if v else []


ARRANGE = (
    Step(
        id="transposed",
        words="Transpose the matrix.",
        code="v = [list(c) for c in zip(*v)]",
        run=lambda v, _: columns(v),
    ),
    Step(
        id="upside_down",
        words="Reverse the order of the rows.",
        code="v = v[::-1]",
        run=lambda v, _: list(reversed(v)),
    ),
    Step(
        id="mirrored",
        words="Reverse each row.",
        code="v = [r[::-1] for r in v]",
        run=lambda v, _: [list(reversed(row)) for row in v],
    ),
    Step(
        id="clockwise",
        words="Turn the matrix clockwise by 90 degrees.",
        code="v = [list(c) for c in zip(*v[::-1])]",
        run=lambda v, _: [list(reversed(column)) for column in columns(v)],
    ),
    Step(
        id="counterclockwise",
        words="Turn the matrix counterclockwise by 90 degrees.",
        code="v = [list(c) for c in zip(*v)][::-1]",
        run=lambda v, _: list(reversed(columns(v))),
    ),
    Step(
        id="half_turn",
        words="Turn the matrix by 180 degrees.",
        code="v = [r[::-1] for r in v[::-1]]",
        run=lambda v, _: [list(reversed(row)) for row in reversed(v)],
    ),
)
CHANGE = (
    Step(
        id="plus",
        words="Add {k} to each number.",
        code="v = [[x + {k} for x in r] for r in v]",
        run=lambda v, k: [[k + x for x in row] for row in v],
        values=FROM_1,
    ),
    Step(
        id="times",
        words="Multiply each number by {k}.",
        code="v = [[x * {k} for x in r] for r in v]",
        run=lambda v, k: [[sum([x] * k) for x in row] for row in v],
        values=FROM_2,
    ),
    Step(
        id="modulo",
        words="Take each number modulo {k}.",
        code="v = [[x % {k} for x in r] for r in v]",
        run=lambda v, k: [[x - x // k * k for x in row] for row in v],
        values=FROM_2,
    ),
    Step(
        id="no_negatives",
        words="Replace negative numbers by 0.",
        code="v = [[max(x, 0) for x in r] for r in v]",
        run=lambda v, _: [[(abs(x) + x) // 2 for x in row] for row in v],
    ),
    Step(
        id="negate",
        words="Negate each number.",
        code="v = [[-x for x in r] for r in v]",
        run=lambda v, _: [[0 - x for x in row] for row in v],
    ),
)
GIVE = (
    Step(
        id="rows",
        words="Return the matrix.",
        code="return v",
        run=lambda v, _: v,
    ),
    Step(
        id="flat",
        words="Return all numbers in one list, row by row.",
        code="return [x for r in v for x in r]",
        run=lambda v, _: [row[n] for row in v for n in range(len(row))],
    ),
    Step(
        id="weighed",
        words="Return for each row the sum of index times number.",
        code="return [sum(i * x for i, x in enumerate(r)) for r in v]",
        run=lambda v, _: [sum(n * row[n] for n in range(len(row))) for row in v],
    ),
)


def draw_matrix(rng: Random, moves: Moves) -> Any:
    """One to four rows of one to four numbers."""
    width = rng.randrange(1, 5)
    return [[_number(rng, moves) for _ in range(width)] for _ in range(rng.randrange(1, 5))]


def _number(rng: Random, moves: Moves) -> int:
    return draw_number(rng, moves) if rng.random() < 0.3 else rng.randrange(-6, 7)


MATRICES = Shape(
    name="matrix",
    ask="Write a Python function f(v). v is a list of rows of integers.",
    slots=(ROWS, ARRANGE, CHANGE, GIVE),
    draw=draw_matrix,
    edges=([], [[9, -1], [-9, 1], [0, 0]]),
)
