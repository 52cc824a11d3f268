"""Tasks from programs: write one, mend one, or say what one returns."""

import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from recipes.code.steps import Moves, Shape, choose, plain, spoiled

WITNESSES = 60  # inputs looked at for one where a bug shows
TRIES = 200
LIKELY = ("", "0", "1", "[]")  # so often printed that saying so would pay

Builder = Callable[[Random, Mapping[str, Any]], dict[str, Any]]


def to_write(shape: Shape) -> Builder:
    """Tasks that tell a program in words and ask for its code."""

    def build(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
        moves = choose(rng, shape.slots, params)
        prompt = f"{shape.ask}\n{shape.words(moves)}"
        return task_of(shape, moves, prompt, template_of(shape, moves), [])

    return build


def to_mend(shapes: tuple[Shape, ...]) -> Builder:
    """Tasks that show a program with one step wrong, and ask for the right one.

    An input where the two differ is always among those that an answer is tried on.
    """

    def build(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
        for _ in range(TRIES):
            shape = rng.choice(shapes)
            moves = choose(rng, shape.slots, params)
            wrong = spoiled(rng, shape.slots, moves, params)
            witness = _where_they_differ(rng, shape, moves, wrong)
            if witness is not None:
                told = "This function should do what follows, but one step is wrong. Mend it."
                prompt = f"{told}\n{shape.words(moves)}\n\n{shape.code(wrong)}"
                template = f"mend {template_of(shape, moves)}"
                task = task_of(shape, moves, prompt, template, witness)
                return {**task, "shows": (shape.key(wrong),)}
        raise ValueError(f"most={params['most']}: no bug shows, take a larger one")

    return build


def to_predict(shapes: tuple[Shape, ...]) -> Builder:
    """Tasks that show a program with an input, and ask for what it prints."""

    def build(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
        for _ in range(TRIES):
            shape = rng.choice(shapes)
            moves = choose(rng, shape.slots, params)
            given = shape.draw(rng, moves)
            printed = str(shape.run(moves, given))
            if len(given) <= 6 and printed == printed.strip() and printed not in LIKELY:
                return {
                    "prompt": f"What does this print?\n\n{shape.code(moves)}\n\nprint(f({given!r}))",
                    "checker": {"kind": "printed", "value": printed},
                    "worked": printed,
                    "canonical_key": shape.key(moves),  # its code answers another family's task
                    "template_id": f"predict {template_of(shape, moves)}",
                    "stratum": f"{shape.name}, {moves[-1].step.id.replace('_', ' ')}",
                }
        raise ValueError(f"most={params['most']}: nothing is printed, take a larger one")

    return build


def task_of(
    shape: Shape, moves: Moves, prompt: str, template: str, also: list[Any]
) -> dict[str, Any]:
    """The fields of a task whose answer is the code of a program."""
    return {
        "prompt": prompt,
        "checker": {"kind": shape.name, "moves": plain(moves), "also": also},
        "worked": shape.code(moves),
        "canonical_key": shape.key(moves),
        "template_id": template,
        "stratum": f"{shape.name}, {moves[-1].step.id.replace('_', ' ')}",
    }


def template_of(shape: Shape, moves: Moves) -> str:
    """The wording with its constants masked."""
    words = " ".join(move.step.words for move in moves)
    return re.sub(r"\{[kab]\}", "#", f"{shape.ask} {words}")


def _where_they_differ(rng: Random, shape: Shape, moves: Moves, wrong: Moves) -> list[Any] | None:
    """[input] where two programs differ, or None when none of many shows it."""
    for given in shape.inputs(rng, moves, WITNESSES):
        if shape.run(moves, given) != shape.run(wrong, given):
            return [given]
    return None
