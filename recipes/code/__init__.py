"""The code families, trained ones first, then those held out for generalisation."""

from collections.abc import Callable, Mapping
from typing import Any

from engine.types import Family
from recipes.code.classes import CLASSES
from recipes.code.clauses import CLAUSED
from recipes.code.generators import GENERATORS
from recipes.code.intervals import INTERVALS
from recipes.code.lists import LISTS
from recipes.code.matrices import MATRICES
from recipes.code.records import RECORDS
from recipes.code.runs import RUNS
from recipes.code.steps import Shape, count_programs, countable
from recipes.code.tasks import Builder, to_mend, to_predict, to_write
from recipes.code.texts import TEXTS
from recipes.code.trees import TREES

TRAINED = (LISTS, TEXTS, INTERVALS, RUNS, MATRICES, RECORDS)
HELD_OUT = (CLASSES, GENERATORS, TREES, CLAUSED)
SHAPES: dict[str, Shape] = {shape.name: shape for shape in (*TRAINED, *HELD_OUT)}
MENDED = (LISTS, TEXTS)


def _count(*shapes: Shape) -> Callable[[Mapping[str, Any]], int | None]:
    return lambda params: countable(sum(count_programs(one.slots, params) for one in shapes))


def _family(name: str, role: str, label: str, build: Builder, *counted: Shape) -> Family:
    return Family(
        id=f"code.{name}",
        role=role,
        label=label,
        revision=1,
        build=build,
        count_keys=_count(*counted) if counted else lambda params: None,
        params={"most": 9},
    )


FAMILIES = (
    _family("list_fold", "train", "lists to one number", to_write(LISTS), LISTS),
    _family("text_transform", "train", "changes to a text", to_write(TEXTS), TEXTS),
    _family("intervals", "train", "intervals merged", to_write(INTERVALS), INTERVALS),
    _family("run_length", "train", "runs of characters", to_write(RUNS), RUNS),
    _family("matrix", "train", "matrices arranged anew", to_write(MATRICES), MATRICES),
    _family("parse_format", "train", "records read and written", to_write(RECORDS), RECORDS),
    _family("bug_fix", "train", "one wrong step mended", to_mend(MENDED), *MENDED),
    _family("output", "train", "what a program prints", to_predict(MENDED), *MENDED),
    _family("stateful_class", "held_out", "a class with a state", to_write(CLASSES), CLASSES),
    _family("generator", "held_out", "a generator function", to_write(GENERATORS), GENERATORS),
    _family("tree_recursion", "held_out", "recursion over a tree", to_write(TREES), TREES),
    _family("edge_case", "held_out", "a clause for a special case", to_write(CLAUSED), CLAUSED),
)
