"""Small programs as chains of steps: what a step says in words, in Python, and in fact.

A shape has slots, and a program takes one step from each, with a constant where the step has one.
The words make the prompt, the Python the worked answer and what is shown to be mended, and `run`
the oracle: the two are written apart, so that each tests the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

COUNTABLE = 10_000_000  # larger key spaces are practically without end
INDENT = "    "


@dataclass(kw_only=True, slots=True, frozen=True)
class Step:
    """One thing that a program does to its value `v`.

    `{k}` in words and code is the constant, one of `values`; of a pair `{a}` and `{b}`.
    """

    id: str
    words: str
    code: str
    run: Callable[[Any, Any], Any]
    values: tuple[Any, ...] = (None,)


@dataclass(slots=True, frozen=True)
class Move:
    """A step with its constant chosen."""

    step: Step
    k: Any = None

    @property
    def words(self) -> str:
        return self.step.words.format_map(_names(self.k, str))

    @property
    def code(self) -> str:
        return self.step.code.format_map(_names(self.k, repr))

    @property
    def key(self) -> str:
        """Step and constant, as they stand in canonical keys."""
        if self.k is None:
            return self.step.id
        parts = self.k if isinstance(self.k, tuple) else (self.k,)
        return f"{self.step.id}:{','.join(map(str, parts))}"


Moves = Sequence[Move]
Slots = tuple[tuple[Step, ...], ...]


@dataclass(slots=True, frozen=True)
class Done:
    """What a step gives when the program returns there and then."""

    value: Any


def run_chain(moves: Moves, value: Any) -> Any:
    """What the program returns: each step applied to what the one before gave."""
    for move in moves:
        value = move.step.run(value, move.k)
        if isinstance(value, Done):
            return value.value
    return value


def write_chain(moves: Moves) -> str:
    """The program as the body of a function."""
    return "\n".join(move.code for move in moves)


@dataclass(kw_only=True, slots=True, frozen=True)
class Shape:
    """What programs of a kind have in common; `draw` makes one input, `edges` are always tried."""

    name: str
    ask: str
    slots: Slots
    draw: Callable[[Random, Moves], Any]
    edges: tuple[Any, ...] = ()
    head: str = "def f(v):"
    run: Callable[[Moves, Any], Any] = run_chain
    write: Callable[[Moves], str] = write_chain
    entry: str = "f"
    driver: str = ""  # Python that calls the answer where its function is not called directly

    def code(self, moves: Moves) -> str:
        """The program in Python, as a right answer has it."""
        body = self.write(moves).splitlines()
        return "\n".join([self.head, *(INDENT + line if line else "" for line in body)])

    def words(self, moves: Moves) -> str:
        """The program in numbered sentences."""
        return "\n".join(f"{n}. {move.words}" for n, move in enumerate(moves, 1))

    def key(self, moves: Moves) -> str:
        """What the program means, as a canonical key."""
        return f"code.{self.name}|{'>'.join(move.key for move in moves)}"

    def read(self, keys: Sequence[Any]) -> list[Move]:
        """The moves of [id, constant] pairs; KeyError or ValueError when they are of no program."""
        moves = []
        for slot, (name, k) in zip(self.slots, keys, strict=True):
            step = {one.id: one for one in slot}[name]
            moves.append(Move(step, tuple(k) if isinstance(k, list) else k))
        return moves

    def inputs(self, rng: Random, moves: Moves, count: int) -> list[Any]:
        """The edges, then drawn inputs."""
        return [*self.edges, *(self.draw(rng, moves) for _ in range(count - len(self.edges)))]


def plain(moves: Moves) -> list[list[Any]]:
    """Moves as [id, constant] pairs, for a checker."""
    return [[move.step.id, move.k] for move in moves]


def choose(rng: Random, slots: Slots, params: Mapping[str, Any]) -> list[Move]:
    """A program: in each slot every step equally often, then each of its constants."""
    return [_one_of(rng, slot, params["most"]) for slot in slots]


def _one_of(rng: Random, slot: tuple[Step, ...], most: int) -> Move:
    step = rng.choice([one for one in slot if allowed(one, most)])
    return Move(step, rng.choice(allowed(step, most)))


def allowed(step: Step, most: int) -> list[Any]:
    """The constants of a step that are no larger than `most`."""
    return [k for k in step.values if not isinstance(k, int) or abs(k) <= most]


def count_programs(slots: Slots, params: Mapping[str, Any]) -> int:
    """How many programs there are; ValueError when `most` leaves a slot without any step."""
    most = params["most"]
    counts = [sum(len(allowed(step, most)) for step in slot) for slot in slots]
    if 0 in counts:
        raise ValueError(f"most={most}: take 3 or more, so that every step has a constant")
    return prod(counts)


def countable(keys: int) -> int | None:
    """A count of keys as Family.count_keys gives it: None when practically without end."""
    return keys if keys <= COUNTABLE else None


def spoiled(rng: Random, slots: Slots, moves: Moves, params: Mapping[str, Any]) -> list[Move]:
    """The program with one move changed for another of the same slot."""
    changed = list(moves)
    place = rng.choice([n for n, slot in enumerate(slots) if len(slot) > 1 or slot[0].values[1:]])
    while changed[place] == moves[place]:
        changed[place] = _one_of(rng, slots[place], params["most"])
    return changed


def near(moves: Moves) -> list[int]:
    """Numbers where the program may change its mind: its constants and their neighbours."""
    constants = [move.k for move in moves if isinstance(move.k, int)]
    return [k + by for k in constants for by in (-1, 0, 1)]


def draw_number(rng: Random, moves: Moves) -> int:
    """A small number, half of the time close to a constant of the program."""
    close = near(moves)
    return rng.choice(close) if close and rng.random() < 0.5 else rng.randrange(-12, 25)


def _names(k: Any, show: Callable[[Any], str]) -> dict[str, str]:
    if isinstance(k, tuple):
        return {"a": show(k[0]), "b": show(k[1])}
    return {"k": show(k)}
