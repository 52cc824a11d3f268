"""Programs over the runs of equal characters in a text."""

from itertools import permutations
from random import Random
from typing import Any

from recipes.code.lists import FROM_1, FROM_2
from recipes.code.steps import Moves, Shape, Step

LETTERS = "abcd"


def runs_of(text: str) -> list[list[Any]]:
    """[character, how often in a row], from left to right."""
    found: list[list[Any]] = []
    for character in text:
        if found and found[-1][0] == character:
            found[-1][1] += 1
        else:
            found.append([character, 1])
    return found


ENCODE = (
    Step(
        id="encode",
        words="Split v into runs of equal characters: [character, count].",
        code="v = [[c, len(list(g))] for c, g in groupby(v)]",
        run=lambda v, _: runs_of(v),
    ),
)
KEEP = (
    Step(
        id="long",
        words="Keep the runs with a count of {k} or more.",
        code="v = [[c, n] for c, n in v if n >= {k}]",
        run=lambda v, k: [one for one in v if one[1] > k - 1],
        values=(2, 3, 4),
    ),
    Step(
        id="short",
        words="Keep the runs with a count of {k} or less.",
        code="v = [[c, n] for c, n in v if n <= {k}]",
        run=lambda v, k: [one for one in v if one[1] < k + 1],
        values=(1, 2, 3),
    ),
    Step(
        id="without",
        words='Drop the runs of "{k}".',
        code="v = [[c, n] for c, n in v if c != {k}]",
        run=lambda v, k: [one for one in v if one[0] != k],
        values=tuple(LETTERS),
    ),
    Step(
        id="first",
        words="Keep the first {k} runs.",
        code="v = v[:{k}]",
        run=lambda v, k: [one for n, one in enumerate(v) if n < k],
        values=(1, 2, 3, 4),
    ),
    Step(
        id="last",
        words="Keep the last {k} runs.",
        code="v = v[-{k}:]",
        run=lambda v, k: [one for n, one in enumerate(v) if n >= len(v) - k],
        values=(1, 2, 3, 4),
    ),
)
COUNTS = (
    Step(
        id="plus",
        words="Add {k} to each count.",
        code="v = [[c, n + {k}] for c, n in v]",
        run=lambda v, k: [[one[0], k + one[1]] for one in v],
        values=FROM_1,
    ),
    Step(
        id="times",
        words="Multiply each count by {k}.",
        code="v = [[c, n * {k}] for c, n in v]",
        run=lambda v, k: [[one[0], sum([one[1]] * k)] for one in v],
        values=FROM_2,
    ),
    Step(
        id="capped",
        words="Make counts above {k} equal to {k}.",
        code="v = [[c, min(n, {k})] for c, n in v]",
        run=lambda v, k: [[one[0], one[1] - max(0, one[1] - k)] for one in v],
        values=(1, 2, 3, 4),
    ),
    Step(
        id="raised",
        words="Make counts below {k} equal to {k}.",
        code="v = [[c, max(n, {k})] for c, n in v]",
        run=lambda v, k: [[one[0], k + max(0, one[1] - k)] for one in v],
        values=(2, 3, 4, 5),
    ),
)
CHARACTERS = (
    Step(
        id="swap",
        words='Replace the character "{a}" by "{b}".',
        code="v = [[{b} if c == {a} else c, n] for c, n in v]",
        run=lambda v, k: [[{k[0]: k[1]}.get(one[0], one[0]), one[1]] for one in v],
        values=tuple(permutations(LETTERS, 2)),
    ),
    Step(
        id="capitals",
        words="Make the characters capital letters.",
        code="v = [[c.upper(), n] for c, n in v]",
        run=lambda v, _: [[one[0].upper(), one[1]] for one in v],
    ),
)
GIVE = (
    Step(
        id="decoded",
        words="Return the text of these runs.",
        code="return ''.join(c * n for c, n in v)",
        run=lambda v, _: "".join("".join([one[0]] * one[1]) for one in v),
    ),
    Step(
        id="spelled",
        words="Return one text with each character and its count, such as a3b1.",
        code="return ''.join(c + str(n) for c, n in v)",
        run=lambda v, _: "".join(f"{c}{n}" for c, n in v),
    ),
    Step(
        id="pairs",
        words="Return the list of [character, count].",
        code="return v",
        run=lambda v, _: v,
    ),
    Step(
        id="backwards",
        words="Return the list of [character, count], last first.",
        code="return v[::-1]",
        run=lambda v, _: list(reversed(v)),
    ),
)


def draw_runs(rng: Random, moves: Moves) -> Any:
    """Up to seven runs of one to six characters."""
    return "".join(
        rng.choice(LETTERS) * rng.choice((1, 1, 2, 3, 4, 5, 6)) for _ in range(rng.randrange(8))
    )


RUNS = Shape(
    name="run",
    ask="Write a Python function f(v). v is a text.",
    slots=(ENCODE, KEEP, COUNTS, CHARACTERS, GIVE),
    draw=draw_runs,
    edges=("", "aabbbcdddd"),
    head="from itertools import groupby\n\n\ndef f(v):",
)
