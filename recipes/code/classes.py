"""Classes with a state, held out: what a call returns depends on the calls before it."""

from random import Random
from typing import Any

from recipes.code.lists import FROM_1, FROM_2
from recipes.code.steps import Moves, Shape, Step

START = (
    Step(
        id="start",
        words="Box() starts with the state {k}.",
        code="self.n = {k}",
        run=lambda _, k: k,
        values=tuple(range(10)),
    ),
)
# What `put` and `take` run on is the pair (state, what is given); they give the new state.
PUT = (
    Step(
        id="add",
        words="put(x) adds {k} times x to the state.",
        code="self.n += {k} * x",
        run=lambda v, k: v[0] + sum([v[1]] * k),
        values=FROM_1,
    ),
    Step(
        id="subtract",
        words="put(x) subtracts x plus {k} from the state.",
        code="self.n -= x + {k}",
        run=lambda v, k: v[0] - v[1] - k,
        values=FROM_1,
    ),
    Step(
        id="largest",
        words="put(x) makes x plus {k} the state if that is larger.",
        code="self.n = max(self.n, x + {k})",
        run=lambda v, k: sorted([v[0], v[1] + k])[1],
        values=FROM_1,
    ),
    Step(
        id="remember",
        words="put(x) makes the state {k} times x.",
        code="self.n = {k} * x",
        run=lambda v, k: sum([v[1]] * k),
        values=FROM_2,
    ),
)
TAKE = (
    Step(
        id="reset",
        words="take() returns the state and then sets it to {k}.",
        code="n, self.n = self.n, {k}\nreturn n",
        run=lambda _, k: k,
        values=tuple(range(10)),
    ),
    Step(
        id="lower",
        words="take() returns the state and then lowers it by {k}.",
        code="self.n -= {k}\nreturn self.n + {k}",
        run=lambda v, k: v[0] - k,
        values=FROM_1,
    ),
    Step(
        id="divide",
        words="take() returns the state and then divides it by {k}, rounding down.",
        code="n = self.n\nself.n = n // {k}\nreturn n",
        run=lambda v, k: (v[0] - v[0] % k) // k,
        values=FROM_2,
    ),
)
LOOK = (
    Step(
        id="modulo",
        words="look() returns the state modulo {k} and leaves it as it is.",
        code="return self.n % {k}",
        run=lambda n, k: n - n // k * k,
        values=FROM_2,
    ),
    Step(
        id="times",
        words="look() returns the state times {k} and leaves it as it is.",
        code="return self.n * {k}",
        run=lambda n, k: sum([n] * k),
        values=FROM_2,
    ),
    Step(
        id="plus",
        words="look() returns the state plus {k} and leaves it as it is.",
        code="return self.n + {k}",
        run=lambda n, k: k + n,
        values=FROM_1,
    ),
)


def write_class(moves: Moves) -> str:
    """The class with its four methods."""
    heads = ("__init__(self)", "put(self, x)", "take(self)", "look(self)")
    methods = []
    for head, move in zip(heads, moves, strict=True):
        body = "\n".join(f"    {line}" for line in move.code.splitlines())
        methods.append(f"def {head}:\n{body}")
    return "\n\n".join(methods)


def run_class(moves: Moves, calls: Any) -> Any:
    """What each call of [name, ...] returns."""
    start, put, take, look = moves
    state, returned = start.k, list[Any]()
    for name, *given in calls:
        if name == "put":
            state = put.step.run((state, given[0]), put.k)
            returned.append(None)
        elif name == "take":
            returned.append(state)
            state = take.step.run((state, None), take.k)
        else:
            returned.append(look.step.run(state, look.k))
    return returned


DRIVER = """

def _drive(v):
    box, other = Box(), Box()
    other.put(5)
    return [getattr(box, name)(*given) for name, *given in v]
"""


def draw_calls(rng: Random, moves: Moves) -> Any:
    """Up to nine calls, more puts than others."""
    names = [rng.choice(("put", "put", "take", "look")) for _ in range(rng.randrange(1, 10))]
    return [[name, rng.randrange(-9, 15)] if name == "put" else [name] for name in names]


CLASSES = Shape(
    name="class",
    ask="Write a Python class Box that keeps a number as its state.",
    slots=(START, PUT, TAKE, LOOK),
    draw=draw_calls,
    edges=([["take"], ["take"]], [["look"], ["put", 3], ["look"]]),
    head="class Box:",
    run=run_class,
    write=write_class,
    entry="_drive",
    driver=DRIVER,
)
