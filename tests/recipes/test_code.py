"""Every code family, as a loop meets it: one split per program, hidden inputs, tests with teeth."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.splits import BUCKETS, check_room, draw, item_seed
from engine.types import Family, Task
from recipes.code import SHAPES
from recipes.code.steps import Moves, Shape, choose, spoiled
from recipes.domains import DOMAINS
from recipes.verifiers.code_cases import INPUTS

CODE = DOMAINS["code"]
TRAINED = [family for family in CODE.families if family.role == "train"]
HELD_OUT = [family for family in CODE.families if family.role == "held_out"]
SECRET, SEALED = b"one run", b"what its evaluator reads"
PARAMS = {"most": 9}

every_family = pytest.mark.parametrize("family", CODE.families, ids=lambda family: family.id)
every_trained = pytest.mark.parametrize("family", TRAINED, ids=lambda family: family.id)
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))


def tasks_of(
    family: Family, count: int, split: str = "train", secret: bytes = SECRET
) -> list[Task]:
    """Tasks by index, whatever their bucket."""
    return [
        family.make(item_seed(secret, split, family.id, family.version, index))
        for index in range(count)
    ]


def programs_of(shape: Shape, count: int) -> list[list[Any]]:
    rng = Random(1)
    return [choose(rng, shape.slots, PARAMS) for _ in range(count)]


# What there is


def test_the_domain_has_the_families_of_its_page() -> None:
    assert CODE.needs_sandbox and not DOMAINS["arith"].needs_sandbox
    assert [family.id for family in TRAINED] == [
        "code.list_fold",
        "code.text_transform",
        "code.intervals",
        "code.run_length",
        "code.matrix",
        "code.parse_format",
        "code.bug_fix",
        "code.output",
    ]
    assert [family.id for family in HELD_OUT] == [
        "code.stateful_class",
        "code.generator",
        "code.tree_recursion",
        "code.edge_case",
    ]


@every_family
def test_a_task_is_short_complete_and_hides_its_constants_in_the_template(family: Family) -> None:
    assert "|" not in family.id + family.version
    for task in tasks_of(family, 200):
        assert len(task.prompt) <= 600 and len(task.worked) <= 450
        assert task.canonical_key.startswith("code.")
        assert "{" not in task.template_id and task.stratum
        assert "#" in task.template_id or task.template_id.count(".") >= 3
    templates = {task.template_id for task in tasks_of(family, 200)}
    assert len(templates) < 190


@every_trained
def test_a_preset_can_ask_for_small_constants(family: Family) -> None:
    small = family.with_params({"most": 3})
    assert family.key_count is None or small.key_count < family.key_count
    told = [move for task in tasks_of(small, 100) for move in task.checker.get("moves", [])]
    constants = [k for _, k in told if isinstance(k, int)]
    assert constants or family.id == "code.output"  # whose checkers know no program
    assert all(abs(k) <= 3 for k in constants)


def test_constants_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="most=0: take 3 or more"):
        print(CODE.family("code.stateful_class").with_params({"most": 0}).key_count)


def test_default_parameters_leave_room_for_a_real_run() -> None:
    for family in TRAINED:
        for split, needed in (("train", 500), ("dev", 60), ("blind", 1_000)):
            check_room(split, family, needed)
    for family in HELD_OUT:
        check_room("held_out", family, 500)


@pytest.mark.parametrize(("name", "most", "count"), [("list_fold", 2, 648), ("run_length", 1, 728)])
def test_counted_keys_are_the_keys_that_are_made(name: str, most: int, count: int) -> None:
    small = CODE.family(f"code.{name}").with_params({"most": most})
    assert small.key_count == count
    made = {task.canonical_key for task in tasks_of(small, 15 * count)}
    assert 0.97 * count <= len(made) <= count


# Splits


@every_trained
def test_no_program_is_in_two_splits(family: Family) -> None:
    owner: dict[str, str] = {}
    for split, span in BUCKETS.items():
        seeds = SEALED if split == "blind" else SECRET
        for one in draw(SECRET, seeds, split, family, 0, 4 * len(span))[0]:
            assert owner.setdefault(one.task.canonical_key, split) == split
    assert len(owner) == 400


def test_a_mended_program_is_in_the_split_of_the_same_program_written() -> None:
    mended = {task.canonical_key for task in tasks_of(CODE.family("code.bug_fix"), 50)}
    assert all(key.startswith(("code.list|", "code.text|")) for key in mended)


def test_no_prompt_shows_what_another_split_asks_for() -> None:
    small = {family.id: family.with_params({"most": 5}) for family in TRAINED}
    asked = [small["code.list_fold"], small["code.text_transform"]]
    shown = small["code.bug_fix"]
    answers = {
        one.task.worked
        for family in asked
        for one in draw(SECRET, SEALED, "blind", family, 0, 150)[0]
    }
    open_prompts = [
        one.task.prompt
        for split in ("train", "diag", "dev")
        for one in draw(SECRET, SECRET, split, shown, 0, 200)[0]
    ]
    assert not [prompt for prompt in open_prompts if prompt.split("\n\n", 1)[1] in answers]


def test_held_out_tasks_are_no_tasks_of_trained_families() -> None:
    trained = {task.template_id for family in TRAINED for task in tasks_of(family, 500)}
    keys = {task.canonical_key.split("|")[0] for family in TRAINED for task in tasks_of(family, 50)}
    for family in HELD_OUT:
        for task in tasks_of(family, 300):
            assert task.template_id not in trained
            assert task.canonical_key.split("|")[0] not in keys


@every_family
def test_neighbouring_indices_and_runs_share_almost_nothing(family: Family) -> None:
    here = [task.canonical_key for task in tasks_of(family, 400, secret=b"seed 42")]
    next_run = [task.canonical_key for task in tasks_of(family, 400, secret=b"seed 43")]
    assert sum(a == b for a, b in pairwise(here)) < 4
    assert sum(a == b for a, b in zip(here, next_run, strict=True)) < 4


@every_shape
def test_few_programs_do_the_same_under_two_keys(shape: Shape) -> None:
    programs = list({shape.key(moves): moves for moves in programs_of(shape, 200)}.values())
    rng, alike = Random(2), {}
    inputs = [given for moves in programs[:40] for given in shape.inputs(rng, moves, 8)]
    twins = 0
    for moves in programs:
        does = repr([result(shape, moves, given) for given in inputs])
        other = alike.setdefault(does, moves)
        close = [*shape.inputs(rng, moves, 60), *shape.inputs(rng, other, 60)]
        twins += other is not moves and not differ(shape, moves, other, close)
    assert twins / len(programs) <= 0.03


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_same_seed_gives_the_same_task_in_another_process(hash_seed: str) -> None:
    script = "import tests.recipes.test_code as t; print(t.fingerprint())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == fingerprint()


def fingerprint() -> str:
    """One hash over thirty tasks of every family."""
    texts = [repr(task) for family in CODE.families for task in tasks_of(family, 30)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


# The tests that answers are put to


def result(shape: Shape, moves: Moves, given: Any) -> Any:
    """What a program gives, or the name of what it raises."""
    try:
        return shape.run(moves, given)
    except Exception as error:  # noqa: BLE001  a spoiled reader meets texts that it cannot read
        return type(error).__name__


@every_shape
def test_hidden_inputs_kill_nine_of_ten_programs_with_one_step_wrong(shape: Shape) -> None:
    rng, killed, alive = Random(3), 0, 0
    for number, moves in enumerate(programs_of(shape, 120)):
        inputs = shape.inputs(Random(number), moves, INPUTS)
        for wrong in (spoiled(rng, shape.slots, moves, PARAMS) for _ in range(4)):
            if differ(shape, moves, wrong, inputs):
                killed += 1
            else:  # one that no input of many tells apart means the same
                alive += differ(shape, moves, wrong, shape.inputs(rng, wrong, 300))
    assert killed / (killed + alive) >= 0.95
    assert killed >= 400


@every_shape
def test_hidden_inputs_kill_programs_that_are_wrong_in_a_corner(shape: Shape) -> None:
    killed = {"first half": 0, "one answer": 0, "nothing": 0, "the input": 0}
    programs = programs_of(shape, 100)
    for number, moves in enumerate(programs):
        inputs = shape.inputs(Random(number), moves, INPUTS)
        right = [result(shape, moves, given) for given in inputs]
        half = [result(shape, moves, given[: (len(given) + 1) // 2]) for given in inputs]
        killed["first half"] += half != right or shape.name == "tree"
        killed["one answer"] += any(one != max(right, key=right.count) for one in right)
        killed["nothing"] += any(one is not None for one in right)
        killed["the input"] += right != inputs
    assert min(killed.values()) >= 90, killed


def differ(shape: Shape, moves: Moves, wrong: Moves, inputs: list[Any]) -> bool:
    return any(result(shape, moves, given) != result(shape, wrong, given) for given in inputs)


def test_a_bug_that_is_shown_is_always_found() -> None:
    for task in tasks_of(CODE.family("code.bug_fix"), 200):
        assert task.checker["also"] and task.worked not in task.prompt


def test_no_printed_line_is_likely() -> None:
    tasks = tasks_of(CODE.family("code.output"), 1_500)
    line, times = Counter(task.worked for task in tasks).most_common(1)[0]
    assert times / len(tasks) <= 0.05, line
    shown = sum(task.worked in task.prompt.rpartition("print")[2] for task in tasks)
    assert shown / len(tasks) <= 0.25  # such as the largest of what is in the list
