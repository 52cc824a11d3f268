"""Generator functions, held out: they yield while they read, pass over some, and may stop early."""

from collections.abc import Callable
from random import Random
from typing import Any

from recipes.code.lists import FROM_1, FROM_2, FROM_3, SIGNED
from recipes.code.steps import Moves, Shape, Step, draw_number

HIGH, LOW = tuple(range(4, 10)), tuple(range(-9, -3))  # not met by the first number at once


def _test(
    name: str,
    words: str,
    code: str,
    holds: Callable[[int, Any], bool],
    values: tuple[int, ...] = SIGNED,
) -> Step:
    return Step(id=name, words=words, code=code, run=holds, values=values)


STOP = (
    _test("above", "Stop at the first number above {k}.", "x > {k}", lambda x, k: x >= k + 1, HIGH),
    _test("below", "Stop at the first number below {k}.", "x < {k}", lambda x, k: x <= k - 1, LOW),
    _test("equal", "Stop at the first {k}.", "x == {k}", lambda x, k: x in (k,)),
    _test(
        "multiple",
        "Stop at the first multiple of {k}.",
        "x % {k} == 0",
        lambda x, k: not x % k,
        FROM_3,
    ),
)
PASS = (
    _test("above", "Pass over numbers above {k}.", "x > {k}", lambda x, k: x >= k + 1),
    _test("below", "Pass over numbers below {k}.", "x < {k}", lambda x, k: x <= k - 1),
    _test(
        "not_multiple",
        "Pass over all but multiples of {k}.",
        "x % {k}",
        lambda x, k: x % k > 0,
        FROM_3,
    ),
)


def _running(v: list[int], k: Any, seen: Callable[[list[int]], int]) -> list[int]:
    return [seen(v[: n + 1]) for n in range(len(v))]


EMIT = (
    Step(
        id="total",
        words="For each other number yield the sum of those so far, times {k}.",
        code="total += x\nyield total * {k}",
        run=lambda v, k: _running(v, k, lambda seen: sum(seen) * k),
        values=FROM_2,
    ),
    Step(
        id="both",
        words="For each other number yield it, then yield it plus {k}.",
        code="yield x\nyield x + {k}",
        run=lambda v, k: [y for x in v for y in (x, k + x)],
        values=FROM_1,
    ),
    Step(
        id="scaled",
        words="For each other number yield it times {k}.",
        code="yield x * {k}",
        run=lambda v, k: [sum([x] * k) for x in v],
        values=FROM_2,
    ),
    Step(
        id="counted",
        words="For each other number yield how many there were so far, plus {k}.",
        code="total += 1\nyield total + {k}",
        run=lambda v, k: _running(v, k, lambda seen: len(seen) + k),
        values=FROM_1,
    ),
)


def write_generator(moves: Moves) -> str:
    """The loop, with the two tests before what it yields."""
    stop, passed, emit = (move.code for move in moves)
    lines = [f"    {line}" for line in emit.splitlines()]
    start = ["total = 0"] if "total" in emit else []
    loop = ["for x in v:", f"    if {stop}:", "        return"]
    return "\n".join([*start, *loop, f"    if {passed}:", "        continue", *lines])


def run_generator(moves: Moves, numbers: Any) -> Any:
    """Everything that it yields, and that it reads no further than it must."""
    stop, passed, emit = moves
    before = next((n for n, x in enumerate(numbers) if stop.step.run(x, stop.k)), len(numbers))
    kept = [x for x in numbers[:before] if not passed.step.run(x, passed.k)]
    return {
        "lazy": True,
        "read": min(before + 1, len(numbers)),
        "gave": emit.step.run(kept, emit.k),
    }


DRIVER = """

def _drive(v):
    taken = []
    made = f(taken.append(x) or x for x in v)
    lazy = iter(made) is made and not taken
    return {"lazy": lazy, "gave": list(made), "read": len(taken)}
"""


def draw_numbers(rng: Random, moves: Moves) -> Any:
    """Up to twelve numbers."""
    return [draw_number(rng, moves) for _ in range(rng.randrange(13))]


GENERATORS = Shape(
    name="generator",
    ask="Write a Python generator function f(v). v is an iterable of integers, read in order.",
    slots=(STOP, PASS, EMIT),
    draw=draw_numbers,
    edges=([], [0]),
    run=run_generator,
    write=write_generator,
    entry="_drive",
    driver=DRIVER,
)
