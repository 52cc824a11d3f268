"""Programs over intervals: keep some, move them, merge what meets, return what is left."""

from random import Random
from typing import Any

from recipes.code.lists import FROM_1, SIGNED
from recipes.code.steps import Moves, Shape, Step, draw_number

KEEP = (
    Step(
        id="long",
        words="Keep the intervals of length {k} or more.",
        code="v = [[a, b] for a, b in v if b - a >= {k}]",
        run=lambda v, k: [one for one in v if one[1] >= one[0] + k],
        values=(1, 2, 3, 4, 5, 6),
    ),
    Step(
        id="short",
        words="Keep the intervals of length {k} or less.",
        code="v = [[a, b] for a, b in v if b - a <= {k}]",
        run=lambda v, k: [one for one in v if one[1] <= one[0] + k],
        values=FROM_1,
    ),
    Step(
        id="free",
        words="Drop the intervals that contain {k}.",
        code="v = [[a, b] for a, b in v if not a <= {k} <= b]",
        run=lambda v, k: [one for one in v if k not in range(one[0], one[1] + 1)],
        values=SIGNED,
    ),
    Step(
        id="from",
        words="Keep the intervals that start at {k} or later.",
        code="v = [[a, b] for a, b in v if a >= {k}]",
        run=lambda v, k: [one for one in v if not one[0] < k],
        values=SIGNED,
    ),
    Step(
        id="until",
        words="Keep the intervals that end at {k} or before.",
        code="v = [[a, b] for a, b in v if b <= {k}]",
        run=lambda v, k: [one for one in v if not one[1] > k],
        values=SIGNED,
    ),
    Step(
        id="reaching",
        words="Keep the intervals that end at {k} or later.",
        code="v = [[a, b] for a, b in v if b >= {k}]",
        run=lambda v, k: [one for one in v if not one[1] < k],
        values=SIGNED,
    ),
)
MOVE = (
    Step(
        id="right",
        words="Shift every interval by {k}.",
        code="v = [[a + {k}, b + {k}] for a, b in v]",
        run=lambda v, k: [[end + k for end in one] for one in v],
        values=FROM_1,
    ),
    Step(
        id="left",
        words="Shift every interval by -{k}.",
        code="v = [[a - {k}, b - {k}] for a, b in v]",
        run=lambda v, k: [[end - k for end in one] for one in v],
        values=FROM_1,
    ),
    Step(
        id="later",
        words="Move every end {k} up.",
        code="v = [[a, b + {k}] for a, b in v]",
        run=lambda v, k: [[one[0], one[1] + k] for one in v],
        values=(1, 2, 3, 4, 5),
    ),
    Step(
        id="earlier",
        words="Move every start {k} down.",
        code="v = [[a - {k}, b] for a, b in v]",
        run=lambda v, k: [[one[0] - k, one[1]] for one in v],
        values=(1, 2, 3, 4, 5),
    ),
    Step(
        id="wider",
        words="Move every start {k} down and every end {k} up.",
        code="v = [[a - {k}, b + {k}] for a, b in v]",
        run=lambda v, k: [[one[0] - k, one[1] + k] for one in v],
        values=(1, 2, 3, 4, 5),
    ),
    Step(
        id="scaled",
        words="Multiply every start and end by {k}.",
        code="v = [[a * {k}, b * {k}] for a, b in v]",
        run=lambda v, k: [[end * k for end in one] for one in v],
        values=(2, 3, 4, 5),
    ),
)


def merged(v: list[list[int]]) -> list[list[int]]:
    """Intervals that share a point made one, in order."""
    groups: list[list[list[int]]] = []
    for one in sorted(v):
        if groups and one[0] <= max(end for _, end in groups[-1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    return [[group[0][0], max(end for _, end in group)] for group in groups]


MERGE = (
    Step(
        id="merge",
        words="Sort them and merge those that overlap or touch.",
        code=(
            "out = []\n"
            "for a, b in sorted(v):\n"
            "    if out and a <= out[-1][1]:\n"
            "        out[-1][1] = max(out[-1][1], b)\n"
            "    else:\n"
            "        out.append([a, b])"
        ),
        run=lambda v, _: merged(v),
    ),
)
GIVE = (
    Step(
        id="all",
        words="Return the merged intervals.",
        code="return out",
        run=lambda v, _: v,
    ),
    Step(
        id="gaps",
        words="Return the gaps between neighbours as [end, next start].",
        code="return [[p[1], q[0]] for p, q in zip(out, out[1:])]",
        run=lambda v, _: [[v[n][1], v[n + 1][0]] for n in range(len(v) - 1)],
    ),
    Step(
        id="starts",
        words="Return the starts of the merged intervals.",
        code="return [a for a, b in out]",
        run=lambda v, _: [one[0] for one in v],
    ),
    Step(
        id="ends",
        words="Return the ends of the merged intervals.",
        code="return [b for a, b in out]",
        run=lambda v, _: [one[1] for one in v],
    ),
)


def draw_intervals(rng: Random, moves: Moves) -> Any:
    """Up to seven intervals, many of them meeting or just missing each other."""
    found: list[list[int]] = []
    for _ in range(rng.randrange(8)):
        start = draw_number(rng, moves) if rng.random() < 0.5 else rng.randrange(-30, 31)
        if found and rng.random() < 0.4:
            start = rng.choice(found)[1] + rng.randrange(-1, 4)
        found.append([start, start + rng.choice((0, 1, 2, 3, 4, 6, 9, 10))])
    return found


INTERVALS = Shape(
    name="interval",
    ask="Write a Python function f(v). v is a list of intervals [start, end] of integers.",
    slots=(KEEP, MOVE, MERGE, GIVE),
    draw=draw_intervals,
    edges=([], [[0, 0]]),
)
