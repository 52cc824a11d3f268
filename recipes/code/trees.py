"""Programs over a tree, held out: a recursive walk picks numbers, then the list steps follow."""

from collections.abc import Callable
from random import Random
from typing import Any

from recipes.code.lists import CHANGE, FOLD, KEEP
from recipes.code.steps import Moves, Shape, Step, draw_number

Node = list[Any]  # [number, [child, ...]]


def _walk(name: str, words: str, test: str, chosen: Callable[[Node, int, Any], bool]) -> Step:
    values = (1, 2, 3) if "{k}" in words else (None,)
    code = (
        "out = []\n\n"
        "def walk(node, depth):\n"
        f"    if {test}:\n"
        "        out.append(node[0])\n"
        "    for child in node[1]:\n"
        "        walk(child, depth + 1)\n\n"
        "walk(v, 0)\n"
        "v = out"
    )
    return Step(
        id=name,
        words=f"Walk the tree, a node before its children, and collect the numbers of {words}.",
        code=code,
        run=lambda v, k: [node[0] for node, depth in _nodes(v) if chosen(node, depth, k)],
        values=values,
    )


def _nodes(tree: Node) -> list[tuple[Node, int]]:
    """Every node with its depth, a node before its children."""
    found, waiting = [], [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        found.append((node, depth))
        waiting += [(child, depth + 1) for child in reversed(node[1])]
    return found


PICK = (
    _walk("leaves", "nodes without children", "not node[1]", lambda node, _, k: node[1] == []),
    _walk("inner", "nodes with children", "node[1]", lambda node, _, k: node[1] != []),
    _walk(
        "even_depth",
        "nodes at an even depth, the root being at 0",
        "depth % 2 == 0",
        lambda _, depth, k: not depth & 1,
    ),
    _walk(
        "upper",
        "nodes at depth {k} or less, the root being at 0",
        "depth <= {k}",
        lambda _, depth, k: depth < k + 1,
    ),
    _walk(
        "children",
        "nodes with exactly {k} children",
        "len(node[1]) == {k}",
        lambda node, _, k: sum(1 for child in node[1]) == k,
    ),
)


def draw_tree(rng: Random, moves: Moves) -> Any:
    """A tree of up to five levels."""
    return _grown(rng, moves, 4)


def _grown(rng: Random, moves: Moves, levels: int) -> Node:
    width = rng.choice((0, 1, 2, 3)) if levels else 0
    return [draw_number(rng, moves), [_grown(rng, moves, levels - 1) for _ in range(width)]]


TREES = Shape(
    name="tree",
    ask=(
        "Write a recursive Python function f(v). v is a tree: a list of a number and "
        "the list of its children, which are trees."
    ),
    slots=(PICK, KEEP, CHANGE, FOLD),
    draw=draw_tree,
    edges=([3, []], [5, [[2, []], [7, [[4, []]]]]]),
)
