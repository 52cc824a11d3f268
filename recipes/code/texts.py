"""Programs over a text: take a part, change characters, return a text or a count."""

from itertools import permutations
from random import Random
from typing import Any

from recipes.code.steps import Moves, Shape, Step

LETTERS = "abcdefgh"
ALPHABET = LETTERS * 3 + LETTERS.upper() + "12  "

PART = (
    Step(
        id="head",
        words="Keep the first {k} characters.",
        code="v = v[:{k}]",
        run=lambda v, k: "".join(c for n, c in enumerate(v) if n < k),
        values=(2, 3, 4, 5, 6),
    ),
    Step(
        id="tail",
        words="Keep the last {k} characters.",
        code="v = v[-{k}:]",
        run=lambda v, k: "".join(c for n, c in enumerate(v) if n >= len(v) - k),
        values=(2, 3, 4, 5, 6),
    ),
    Step(
        id="skip",
        words="Drop the first {k} characters.",
        code="v = v[{k}:]",
        run=lambda v, k: "".join(c for n, c in enumerate(v) if n >= k),
        values=(1, 2, 3, 4, 5),
    ),
    Step(
        id="cut",
        words="Drop the last {k} characters.",
        code="v = v[:-{k}]",
        run=lambda v, k: "".join(c for n, c in enumerate(v) if n < len(v) - k),
        values=(1, 2, 3, 4, 5),
    ),
    Step(
        id="every",
        words="Keep every character whose index is a multiple of {k}.",
        code="v = v[::{k}]",
        run=lambda v, k: "".join(c for n, c in enumerate(v) if n % k == 0),
        values=(2, 3, 4),
    ),
    Step(
        id="unspaced",
        words="Remove all spaces.",
        code="v = v.replace(' ', '')",
        run=lambda v, _: "".join(v.split(" ")),
    ),
)
CHARACTERS = (
    Step(
        id="swap",
        words='Replace every "{a}" by "{b}".',
        code="v = v.replace({a}, {b})",
        run=lambda v, k: "".join(k[1] if c == k[0] else c for c in v),
        values=tuple(permutations(LETTERS, 2)),
    ),
    Step(
        id="remove",
        words='Remove every "{k}".',
        code="v = v.replace({k}, '')",
        run=lambda v, k: "".join(c for c in v if c != k),
        values=tuple(LETTERS),
    ),
    Step(
        id="double",
        words="Write every character twice.",
        code="v = ''.join(c * 2 for c in v)",
        run=lambda v, _: "".join(c + c for c in v),
    ),
    Step(
        id="swapcase",
        words="Swap capital and small letters.",
        code="v = v.swapcase()",
        run=lambda v, _: "".join(c.lower() if c.isupper() else c.upper() for c in v),
    ),
)
GIVE = (
    Step(
        id="reversed",
        words="Return the text reversed.",
        code="return v[::-1]",
        run=lambda v, _: "".join(reversed(v)),
    ),
    Step(
        id="sorted",
        words="Return the characters in sorted order.",
        code="return ''.join(sorted(v))",
        run=lambda v, _: "".join(c * v.count(c) for c in sorted(set(v))),
    ),
    Step(
        id="capitals",
        words="Return the text in capital letters.",
        code="return v.upper()",
        run=lambda v, _: "".join(c.upper() for c in v),
    ),
    Step(
        id="repeated",
        words="Return the text {k} times in a row.",
        code="return v * {k}",
        run=lambda v, k: "".join([v] * k),
        values=(2, 3, 4),
    ),
    Step(
        id="rotated",
        words="Return the text with its first {k} characters moved to the end.",
        code="return v[{k}:] + v[:{k}]",
        run=lambda v, k: "".join([*v[k:], *v[:k]]),
        values=(1, 2, 3),
    ),
    Step(
        id="dashes",
        words="Return the text with a - between all characters.",
        code="return '-'.join(v)",
        run=lambda v, _: "".join(c + "-" for c in v)[:-1],
    ),
    Step(
        id="brackets",
        words="Return the text between [ and ].",
        code="return '[' + v + ']'",
        run=lambda v, _: f"[{v}]",
    ),
    Step(
        id="distinct",
        words="Return every different character once, in order.",
        code="return ''.join(dict.fromkeys(v))",
        run=lambda v, _: "".join(c for n, c in enumerate(v) if c not in v[:n]),
    ),
    Step(
        id="count",
        words='Return how often "{k}" occurs.',
        code="return v.count({k})",
        run=lambda v, k: sum(c == k for c in v),
        values=tuple(LETTERS),
    ),
)


def draw_text(rng: Random, moves: Moves) -> Any:
    """Up to fourteen characters, half of the time from the letters that the program names."""
    named = [c for move in moves if isinstance(move.k, str | tuple) for c in move.k]
    close = [*named, *named, *LETTERS[:2]] if named else list(LETTERS)
    return "".join(
        rng.choice(close if rng.random() < 0.5 else ALPHABET) for _ in range(rng.randrange(15))
    )


TEXTS = Shape(
    name="text",
    ask="Write a Python function f(v). v is a text.",
    slots=(PART, CHARACTERS, GIVE),
    draw=draw_text,
    edges=("", "a", "Cab 2bee"),
)
