"""Every arithmetic family, as a loop meets it: one split per task, one right answer, no shortcut."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.splits import BUCKETS, check_room, draw, item_seed
from engine.types import Family, Task
from recipes.arith.sums import CHAIN, longest_chain
from recipes.domains import DOMAINS

ARITH = DOMAINS["arith"]
TRAINED = [family for family in ARITH.families if family.role == "train"]
HELD_OUT = [family for family in ARITH.families if family.role == "held_out"]
SECRET, SEALED = b"one run", b"what its evaluator reads"
MOST = 10_000  # tasks of one family over all splits

every_family = pytest.mark.parametrize("family", ARITH.families, ids=lambda family: family.id)
every_trained = pytest.mark.parametrize("family", TRAINED, ids=lambda family: family.id)


def tasks_of(
    family: Family, count: int, split: str = "train", secret: bytes = SECRET
) -> list[Task]:
    """Tasks by index, whatever their bucket: what a family makes before a split sorts it."""
    return [
        family.make(item_seed(secret, split, family.id, family.version, index))
        for index in range(count)
    ]


def score(task: Task, text: str) -> float | None:
    return ARITH.verifier.verify(task, text).score


# What there is


def test_the_domain_has_the_families_of_its_page() -> None:
    assert [family.id for family in TRAINED] == [
        "arith.add_carry",
        "arith.sum_terms",
        "arith.subtract_borrow",
        "arith.product",
        "arith.long_division",
        "arith.decimals",
        "arith.base_conversion",
        "arith.expression",
    ]
    assert [family.id for family in HELD_OUT] == [
        "arith.carry_chain",
        "arith.other_bases",
        "arith.column_words",
        "arith.reversed_digits",
        "arith.missing_digit",
        "arith.money_time",
        "arith.word_distractor",
    ]


@every_family
def test_a_task_is_short_complete_and_hides_its_numbers_in_the_template(family: Family) -> None:
    assert "|" not in family.id + family.version
    for task in tasks_of(family, 300):
        assert len(task.prompt) <= (40 if family.role == "train" else 140)
        assert task.canonical_key.startswith("arith.")
        assert not set(re.findall(r"\d\d+", task.template_id)) - {"10", "12", "16"}  # bases stay
        assert task.stratum
        assert task.worked == task.checker["value"]
        assert family.id == "arith.expression" or not task.worked.startswith("-")


def test_a_preset_can_ask_for_one_and_two_digit_sums() -> None:
    add = ARITH.family("arith.add_carry")
    small = add.with_params({"low": 2, "high": 2})
    assert small.key_count == 4_095
    assert Counter(task.stratum for task in tasks_of(small, 3_000)).keys() == {
        "2 digits, 0 carries",
        "2 digits, 1 carry",
        "2 digits, 2 carries",
    }
    mixed = add.with_params({"low": 2, "high": 2, "second_low": 1, "second_high": 1})
    lengths = {
        tuple(sorted(len(n) for n in re.findall(r"\d+", task.prompt)))
        for task in tasks_of(mixed, 500)
    }
    assert lengths == {(1, 2)}


def test_every_number_of_carries_comes_equally_often() -> None:
    three = ARITH.family("arith.add_carry").with_params({"low": 3, "high": 3})
    seen = Counter(task.stratum for task in tasks_of(three, 4_000))
    assert len(seen) == 4
    assert min(seen.values()) > 900


def test_borrows_run_through_zeros_in_a_good_share_of_differences() -> None:
    tasks = tasks_of(ARITH.family("arith.subtract_borrow"), 2_000)
    through = [task for task in tasks if task.stratum.endswith("through zeros")]
    assert 0.15 < len(through) / len(tasks) < 0.5
    for task in through:
        assert "0" in task.prompt.split(" - ")[0]


@pytest.mark.parametrize(
    ("family_id", "params", "message"),
    [
        ("arith.add_carry", {"low": 0}, "low=0, high=8"),
        ("arith.add_carry", {"low": 5, "high": 3}, "low=5, high=3"),
        ("arith.add_carry", {"high": 40}, "low=2, high=40"),
        ("arith.sum_terms", {"terms_low": 2}, "terms_low=2"),
        ("arith.subtract_borrow", {"high": 2, "second_low": 3, "second_high": 3}, "3 digits"),
        ("arith.long_division", {"high": 3, "divisor_low": 4, "divisor_high": 5}, "4 digits"),
        ("arith.decimals", {"places_low": 0}, "places_low=0"),
        ("arith.base_conversion", {"low": 1}, "low=1"),
        ("arith.carry_chain", {"low": 2}, "low=2"),
        ("arith.column_words", {"high": 9}, "high=9"),
        ("arith.missing_digit", {"low": 1}, "low=1"),
    ],
)
def test_a_wrong_parameter_is_named(family_id: str, params: dict[str, Any], message: str) -> None:
    family = ARITH.family(family_id).with_params(params)
    with pytest.raises(ValueError, match=message):
        [family.make(seed) for seed in range(50)]
    with pytest.raises(ValueError, match=message):
        print(family.key_count)


# How many there are


@pytest.mark.parametrize(
    ("family_id", "params", "count"),
    [
        ("arith.add_carry", {"low": 1, "high": 1}, 45),
        ("arith.add_carry", {"low": 2, "high": 2, "second_low": 1, "second_high": 1}, 810),
        ("arith.sum_terms", {"low": 1, "high": 1, "terms_low": 3, "terms_high": 4}, 660),
        ("arith.subtract_borrow", {"low": 1, "high": 1}, 36),
        ("arith.subtract_borrow", {"low": 1, "high": 2, "second_low": 1, "second_high": 1}, 846),
        ("arith.product", {"low": 1, "high": 2, "second_low": 1, "second_high": 1}, 756),
        ("arith.long_division", {"low": 1, "high": 2, "divisor_high": 1}, 756),
        ("arith.decimals", {"high": 1, "places_high": 1}, 90 * 91 + 90 * 89 // 2),
        ("arith.base_conversion", {"high": 2}, 540),
        ("arith.expression", {"high": 1}, 4 * 8 * 36 + 512 + 36 * 37 // 2),
        ("arith.other_bases", {"high": 2}, 360),
        ("arith.column_words", {"high": 2}, 28**2 - 64),
        ("arith.reversed_digits", {"high": 2}, 81 * 82 // 2),
        ("arith.missing_digit", {"high": 2}, 90 * 90 * 2),
        ("arith.money_time", {"dollars": 1, "hours": 1}, 99 * 50 + 59 * 30),
        ("arith.word_distractor", {"high": 1}, 36 + 28),
    ],
)
def test_counted_keys_are_the_keys_that_are_made(
    family_id: str, params: dict[str, Any], count: int
) -> None:
    family = ARITH.family(family_id).with_params(params)
    assert family.key_count == count
    made = {
        task.canonical_key for task in tasks_of(family, min(50 * count, max(5 * count, 60_000)))
    }
    assert 0.985 * count <= len(made) <= count


def test_sums_are_counted_without_carry_chains() -> None:
    params = {"low": 4, "high": 4, "second_low": 1, "second_high": 2}
    family = ARITH.family("arith.add_carry").with_params(params)
    pairs = ((a, b) for a in range(1_000, 10_000) for b in range(1, 100))
    assert family.key_count == sum(longest_chain(a, b) < CHAIN for a, b in pairs)


def test_runs_of_nines_are_counted_too() -> None:
    family = ARITH.family("arith.carry_chain").with_params({"low": 3, "high": 3})
    assert family.key_count == 45 * 90 + 18_000 + 630_000
    nines = r"arith\.add\|sorted\(\d,(\d?[0-8])?999\d\)"
    made = {task.canonical_key for task in tasks_of(family, 50_000)}
    assert 4_020 <= sum(bool(re.fullmatch(nines, key)) for key in made) <= 4_050


def test_default_parameters_leave_room_for_a_real_run() -> None:
    for family in TRAINED:
        for split, needed in (("train", 500), ("dev", 60), ("blind", 1_000)):
            check_room(split, family, needed)
    for family in HELD_OUT:
        check_room("held_out", family, 500)


# Splits


@every_trained
def test_no_task_is_in_two_splits(family: Family) -> None:
    counted = family.key_count
    total = MOST if counted is None else min(MOST, counted // 2)
    owner: dict[str, str] = {}
    for split, span in BUCKETS.items():
        seeds = SEALED if split == "blind" else SECRET
        for one in draw(SECRET, seeds, split, family, 0, total * len(span) // 100)[0]:
            key = one.task.canonical_key
            assert owner.setdefault(key, split) == split
            assert score(one.task, one.task.worked) == 1.0
    assert len(owner) >= total - len(BUCKETS)


def test_held_out_tasks_are_no_tasks_of_trained_families() -> None:
    trained, templates = set(), set()
    for family in TRAINED:
        for task in tasks_of(family, 4_000):
            trained.add(task.canonical_key)
            templates.add(task.template_id)
    for family in HELD_OUT:
        counted = family.key_count
        total = MOST if counted is None else min(MOST, counted // 2)
        for one in draw(SECRET, SEALED, "held_out", family, 0, total)[0]:
            assert one.task.canonical_key not in trained
            assert one.task.template_id not in templates
            assert score(one.task, one.task.worked) == 1.0


def test_a_carry_chain_is_never_trained_and_always_held_out() -> None:
    small = ARITH.family("arith.add_carry").with_params({"low": 1})
    for family in (ARITH.family("arith.add_carry"), small):
        for task in tasks_of(family, 4_000):
            assert longest_chain(*map(int, re.findall(r"\d+", task.prompt))) < CHAIN
    for task in tasks_of(ARITH.family("arith.carry_chain"), 4_000):
        assert longest_chain(*map(int, re.findall(r"\d+", task.prompt))) >= CHAIN


@every_family
def test_neighbouring_indices_and_runs_share_almost_nothing(family: Family) -> None:
    here = [task.canonical_key for task in tasks_of(family, 2_001, secret=b"seed 42")]
    next_run = [task.canonical_key for task in tasks_of(family, 2_001, secret=b"seed 43")]
    for shift in range(5):
        for other in (here[shift + 1 :], next_run[shift:]):
            assert sum(a == b for a, b in zip(here, other, strict=False)) < 20


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_same_seed_gives_the_same_task_in_another_process(hash_seed: str) -> None:
    script = "import tests.recipes.test_arith as t; print(t.fingerprint())"
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
    """One hash over fifty tasks of every family."""
    texts = [repr(task) for family in ARITH.families for task in tasks_of(family, 50)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


@pytest.mark.parametrize(
    ("family_id", "prompt", "worked"),
    [
        ("arith.add_carry", "547 + 467330 = ?", "467877"),
        ("arith.sum_terms", "5 + 8 + 8737 = ?", "8750"),
        ("arith.subtract_borrow", "7879 - 303 = ?", "7576"),
        ("arith.product", "6 * 82 = ?", "492"),
        ("arith.long_division", "682 / 3 = ? (q r R)", "227 r 1"),
        ("arith.decimals", "361.8 + 93.64 = ?", "455.44"),
        ("arith.base_conversion", "82 to base 2 = ?", "1010010"),
        ("arith.expression", "6 - 9 * 70 = ?", "-624"),
        ("arith.carry_chain", "Add 458201 and 141799.", "600000"),
        ("arith.other_bases", "Write 82 as a number in base 7 (digits 0 to 6).", "145"),
        ("arith.column_words", "What number is 29 tens and 20 ones?", "310"),
    ],
)
def test_seed_1_is_this_task_on_every_machine(family_id: str, prompt: str, worked: str) -> None:
    task = ARITH.family(family_id).make(1)
    assert (task.prompt, task.worked) == (prompt, worked)


# Answers


def look_alikes(worked: str) -> list[str]:
    """The worked answer in digits that only look like digits."""
    rows = ("\uff10", "\u0660", "\u06f0", "\u0966", "\U0001d7ce")
    tables = [{ord("0") + n: chr(ord(row) + n) for n in range(10)} for row in rows]
    superscript = dict(zip(map(ord, "0123456789"), "⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True))
    texts = [worked.translate(table) for table in (*tables, superscript)]
    return [text for text in texts if text != worked]  # base 16 has numbers without a digit


@every_family
def test_the_worked_answer_is_right_and_no_hedge_or_other_spelling_is(family: Family) -> None:
    keys = family.key_count
    count = MOST if keys is None else min(MOST, keys // 2)
    for task in tasks_of(family, count):
        worked = task.worked
        assert score(task, worked) == score(task, f"{worked}\n") == 1.0
        assert score(task, f"First this, then that.\nANSWER: {worked}") == 1.0
        other = next(text for text in ("7", "8") if text != worked)
        wrong = [
            "",
            other,
            f"{worked} or {other}",
            f"{other} or {worked}",
            f"{worked}\n{other}",
            f"{worked}\n{worked}",
            f"ANSWER: {other}\nANSWER: {worked}",
            f"ANSWER: {worked}\nANSWER: {worked}",
            f"ANSWER: {worked}\nor {other}",
            f"The answer is {worked}.",
            f"{task.prompt} {worked}",
            f"0{worked}",
            f"+{worked}",
            f"{worked}.",
            f"{worked}.0",
            f"{worked}.00" if "." not in worked else f"{worked}0",
            *look_alikes(worked),
        ]
        for text in wrong:
            assert score(task, text) == 0.0, (task.prompt, text)


@every_family
def test_values_agree_with_python(family: Family) -> None:
    """An oracle of another kind: what the prompt says, worked out from its text."""
    for task in tasks_of(family, 300):
        value = oracle(family.id, task.prompt)
        if value is not None:
            assert task.worked == str(value), task.prompt


def oracle(family_id: str, prompt: str) -> Any:
    numbers = re.findall(r"\b[0-9A-F]+\b", prompt)
    if family_id == "arith.long_division":
        return "{} r {}".format(*divmod(int(numbers[0]), int(numbers[1])))
    if family_id == "arith.base_conversion":
        return int(numbers[1], int(numbers[0])) if prompt.startswith("base") else None
    if family_id == "arith.other_bases":
        return int(numbers[0], int(numbers[1])) if " is written " in prompt else None
    if family_id == "arith.carry_chain":
        return int(numbers[0]) + int(numbers[1])
    if family_id == "arith.reversed_digits":
        return int(numbers[0][::-1]) + int(numbers[1][::-1])
    if family_id == "arith.column_words":
        size = {"ones": 1, "tens": 10, "hundreds": 100, "thousands": 1000}
        return sum(int(n) * size[word] for n, word in re.findall(r"(\d+) (\w+)", prompt))
    if family_id == "arith.missing_digit":
        sides = prompt.split(": ")[1].split(". Which")[0].split(" = ")
        found = [d for d in "0123456789" if eval(sides[0].replace("_", d)) == int(sides[1])]
        return found[0] if len(found) == 1 else "no single digit"
    if family_id == "arith.decimals":
        return None
    return eval(prompt.removesuffix(" = ?")) if prompt.endswith(" = ?") else None


@every_family
def test_no_shortcut_pays(family: Family) -> None:
    """Repeating a number of the question, or always the same answer, is right by chance at most."""
    tasks = tasks_of(family, 1_000)
    numbers = [re.findall(r"\d+", task.prompt) for task in tasks]
    chance = 0.10 if family.id == "arith.missing_digit" else 0.0
    picks = [(n[0], n[-1], max(n, key=int)) for n in numbers]
    for place in range(3):
        right = [score(task, pick[place]) for task, pick in zip(tasks, picks, strict=True)]
        assert right.count(1.0) / len(tasks) <= chance + 0.02
    answer, times = Counter(task.worked for task in tasks).most_common(1)[0]
    assert times / len(tasks) <= chance + 0.035, answer
