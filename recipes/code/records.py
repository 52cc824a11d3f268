"""Programs that read records from a text, work on them, and write them in another form."""

from itertools import product
from random import Random
from typing import Any

from recipes.code.lists import FROM_1, FROM_2
from recipes.code.steps import Moves, Shape, Step, draw_number

BETWEEN, INSIDE = (",", ";", " ", "|"), ("=", ":", ">")
MARKS = tuple(product(BETWEEN, INSIDE))
NAMES = "abcdef"

READ = (
    Step(
        id="read",
        words='Read v: records separated by "{a}", each a name, "{b}" and a number.',
        code="v = [p.split({b}) for p in v.split({a})] if v else []\nv = [[a, int(b)] for a, b in v]",
        run=lambda v, k: [
            [part.partition(k[1])[0], int(part.partition(k[1])[2])]
            for part in v.split(k[0])
            if part
        ],
        values=MARKS,
    ),
)
KEEP = (
    Step(
        id="above",
        words="Keep the records with a number greater than {k}.",
        code="v = [[a, b] for a, b in v if b > {k}]",
        run=lambda v, k: [one for one in v if one[1] > k],
        values=tuple(range(10)),
    ),
    Step(
        id="below",
        words="Keep the records with a number less than {k}.",
        code="v = [[a, b] for a, b in v if b < {k}]",
        run=lambda v, k: [one for one in v if one[1] < k],
        values=FROM_2,
    ),
    Step(
        id="even",
        words="Keep the records with an even number.",
        code="v = [[a, b] for a, b in v if b % 2 == 0]",
        run=lambda v, _: [one for one in v if not one[1] & 1],
    ),
    Step(
        id="without",
        words='Drop the records with the name "{k}".',
        code="v = [[a, b] for a, b in v if a != {k}]",
        run=lambda v, k: [one for one in v if one[0] != k],
        values=tuple(NAMES),
    ),
)
CHANGE = (
    Step(
        id="plus",
        words="Add {k} to each number.",
        code="v = [[a, b + {k}] for a, b in v]",
        run=lambda v, k: [[one[0], k + one[1]] for one in v],
        values=FROM_1,
    ),
    Step(
        id="times",
        words="Multiply each number by {k}.",
        code="v = [[a, b * {k}] for a, b in v]",
        run=lambda v, k: [[one[0], sum([one[1]] * k)] for one in v],
        values=FROM_2,
    ),
    Step(
        id="modulo",
        words="Take each number modulo {k}.",
        code="v = [[a, b % {k}] for a, b in v]",
        run=lambda v, k: [[one[0], one[1] - one[1] // k * k] for one in v],
        values=FROM_2,
    ),
)
ORDER = (
    Step(
        id="by_name",
        words="Sort them by name, then by number.",
        code="v = sorted(v)",
        run=lambda v, _: sorted(v, key=lambda one: (one[0], one[1])),
    ),
    Step(
        id="by_number",
        words="Sort them by number, then by name.",
        code="v = sorted(v, key=lambda r: (r[1], r[0]))",
        run=lambda v, _: [[name, n] for n, name in sorted([n, name] for name, n in v)],
    ),
    Step(
        id="backwards",
        words="Reverse their order.",
        code="v = v[::-1]",
        run=lambda v, _: list(reversed(v)),
    ),
)
WRITE = (
    Step(
        id="write",
        words='Return them as text: separated by "{a}", with "{b}" between name and number.',
        code="return {a}.join(a + {b} + str(b) for a, b in v)",
        run=lambda v, k: k[0].join(f"{name}{k[1]}{n}" for name, n in v),
        values=MARKS,
    ),
)


def draw_records(rng: Random, moves: Moves) -> Any:
    """Up to six records in the form that the program reads."""
    between, inside = moves[0].k
    numbers = [max(0, draw_number(rng, moves)) for _ in range(rng.randrange(7))]
    return between.join(f"{rng.choice(NAMES)}{inside}{number}" for number in numbers)


RECORDS = Shape(
    name="record",
    ask="Write a Python function f(v). v is a text.",
    slots=(READ, KEEP, CHANGE, ORDER, WRITE),
    draw=draw_records,
    edges=("",),
)
