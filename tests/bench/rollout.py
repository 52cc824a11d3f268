"""Answers and label reads a second in batches, against one at a time; our endpoint against vLLM.

Answers: the worker's batches against transformers' `generate`, one ask at a time, greedy in
float32; the texts must be the same. Labels: reads from logits against answers of 8 tokens that are
parsed; at least 99 of 100 choices must be the same. The endpoint: the same chats through Pawl's
server and to the vLLM process behind it; PAWL_VLLM names vLLM's Python, and without one that part
is left out. All compute with one thread; the whole takes about half an hour.
"""

import os
from collections.abc import Callable
from pathlib import Path

from app import set_up
from engine.models.registry import ensure_embedded
from tests.bench import rollout_endpoint
from tests.bench.harness import (
    Goal,
    Measured,
    Ratio,
    Side,
    compare,
    finish,
    module,
    options,
    run,
    same_texts,
    say,
)
from tests.bench.rollout_asks import (
    ITEMS,
    NEW_TOKENS,
    PARSED_TOKENS,
    PROMPTS,
    QUICK_ITEMS,
    QUICK_NEW_TOKENS,
    QUICK_PROMPTS,
)
from tests.bench.train import bench_home

ANSWERS_GOAL = Goal(at_least=5.0)
LABELS_GOAL = Goal(at_least=6.0)
ALIKE = 0.99  # of the choices
PATIENCE_SECONDS = 3600.0


def main(argv: list[str]) -> int:
    """Compare and print; 0 when every goal is reached."""
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--part", choices=sorted(PARTS), help="measure one part alone")
    args = parser.parse_args(argv)
    model = ensure_embedded(bench_home() / "models", set_up.MODEL_FILE, set_up.MODEL_SHA256).path
    wanted = [args.part] if args.part else list(PARTS)
    python = os.environ.get("PAWL_VLLM")
    if "endpoint" in wanted and not python:
        say("NOT MEASURED: our endpoint against vLLM. Set PAWL_VLLM to the Python that has vLLM.")
        wanted.remove("endpoint")
    ratios = [PARTS[part](model, args.pairs, args.quick) for part in wanted]
    return finish("rollout", args, ratios, parts=wanted)


def answers(model: str, pairs: int, quick: bool) -> Ratio:
    """Batches against one ask at a time."""
    count, tokens = (QUICK_PROMPTS, QUICK_NEW_TOKENS) if quick else (PROMPTS, NEW_TOKENS)
    ours = way("Pawl, in batches", "batched", model, count, tokens)
    theirs = way("transformers, one by one", "one_by_one", model, count, tokens)
    return race(ours, theirs, "answers/s", ANSWERS_GOAL, pairs, quick, same_texts)


def labels(model: str, pairs: int, quick: bool) -> Ratio:
    """Labels read from logits against labels written and parsed."""
    count = QUICK_ITEMS if quick else ITEMS
    ours = way("Pawl, read from logits", "read", model, count, PARSED_TOKENS)
    theirs = way("transformers, parsed", "parsed", model, count, PARSED_TOKENS)
    return race(ours, theirs, "choices/s", LABELS_GOAL, pairs, quick, same_choices)


def endpoint(model: str, pairs: int, quick: bool) -> Ratio:
    """Chats through our server against chats with the vLLM process behind it."""
    return rollout_endpoint.measure(Path(model), pairs, quick)


PARTS: dict[str, Callable[[str, int, bool], Ratio]] = {
    "answers": answers,
    "labels": labels,
    "endpoint": endpoint,
}


def way(name: str, which: str, model: str, count: int, tokens: int) -> Side:
    """One side: a way in a process of its own."""
    command = module("rollout_ways", which, model, str(count), str(tokens))
    return Side(name=name, command=command, seconds=PATIENCE_SECONDS)


def race(
    ours: Side,
    theirs: Side,
    unit: str,
    goal: Goal,
    pairs: int,
    quick: bool,
    differ: Callable[[Measured, Measured], str | None],
) -> Ratio:
    """Both sides in turn; each warms up inside its own process."""
    return compare(
        ours,
        theirs,
        value="rate",
        unit=unit,
        goal=goal,
        pairs=pairs,
        differ=differ,
        warm_up=False,
        again=not quick,
    )


def same_choices(one: Measured, other: Measured) -> str | None:
    """Nearly every choice must be the same, and more than one label be chosen."""
    pairs = list(zip(one["came"], other["came"], strict=True))
    alike = sum(ours == theirs for ours, theirs in pairs)
    if alike < ALIKE * len(pairs):
        return f"{alike} of {len(pairs)} choices are the same"
    return None if len(set(one["came"])) > 1 else "every choice is the same label"


if __name__ == "__main__":
    run(main)
