"""A teacher's own wordings of what the student had wrong: kept when they ask the same, and only then."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.rewordings import ASK, MOST, reword
from engine.types import Task
from recipes.domains import DOMAINS
from tests.engine.phase_desk import PhaseDesk
from tests.instance import instance
from tests.scripted_operator import KEY_ENV, NAME, ScriptedOperator

DOMAIN = DOMAINS["arith"]
TASKS = [DOMAIN.family("arith.add_carry").make(seed) for seed in range(12)]


class Teacher(ScriptedOperator):
    """Puts a sum into words as `words` says, and works out what its own words ask for."""

    def __init__(self, words: Callable[[str, str], str]) -> None:
        self.words = words
        super().__init__()

    def _plan(self, body: dict[str, Any]) -> str:
        order, prompt = (message["content"] for message in body["messages"])
        numbers = re.findall(r"\d+", prompt)
        if order == ASK:
            return self.words(*numbers[:2])
        first, second = (int(number) for number in numbers)
        return str(first - second if "from" in prompt else first + second)


@pytest.fixture
def said(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_ENV, "the-key")

    def ask(words: Callable[[str, str], str], tasks: list[Task] = TASKS) -> list[dict[str, Any]]:
        with Teacher(words) as teacher, instance(tmp_path) as pawl:
            teacher.register(pawl.store)
            desk = PhaseDesk(pawl, teacher_model=NAME)
            return reword(tasks, desk.facts, desk.tools("collect"))

    return ask


def test_a_wording_that_asks_the_same_comes_with_the_teachers_answer(said):
    found = said(lambda a, b: f"If you have {a} and get {b} more, how many is that?")
    assert [one["task"] for one in found] == [task.id for task in TASKS]
    for task, one in zip(TASKS, found, strict=True):
        numbers = re.findall(r"\d+", task.prompt)
        assert (
            one["prompt"]
            == f"If you have {numbers[0]} and get {numbers[1]} more, how many is that?"
        )
        assert DOMAIN.verifier.verify(task, one["text"]).score == 1
        assert one["model"] == NAME


@pytest.mark.parametrize(
    "words",
    [
        lambda a, b: f"Take {b} from {a}. What is left?",
        lambda a, b: f"If you have {a} and get {b}0 more, how many is that?",
        lambda a, b: f"Add {a} and {b}.",
        lambda a, b: f"Please add the numbers {a} and {b} together.",
        lambda a, b: f"{a} + {b} = ?",
        lambda a, b: f"What is {a} plus {b}?\nAnd say why.",
        lambda a, b: "",
    ],
    ids=[
        "asks something else",
        "another number",
        "held out",
        "held out, with more words",
        "not new",
        "two lines",
        "nothing",
    ],
)
def test_a_wording_that_may_ask_something_else_is_left(said, words):
    assert said(words) == []


def test_a_held_out_wording_stays_one_without_its_brackets_and_with_other_digits():
    task = DOMAIN.family("arith.base_conversion").make(1)
    assert DOMAIN.may_stand is not None
    numbers = re.findall(r"\d+", task.prompt)
    assert len(numbers) == 2, "a number in base ten"
    held_out = f"Write {numbers[0]} as a number in base {numbers[1]}, please."
    assert not DOMAIN.may_stand(task, held_out)
    assert DOMAIN.may_stand(task, f"What does {numbers[0]} look like in base {numbers[1]}?")
    mixed = replace(task, prompt="base 16: 3FC7 to base 10 = ?")
    assert not DOMAIN.may_stand(mixed, "3FC7 is written in base 16. Which ordinary number is it?")


def test_no_more_than_a_few_are_asked_for_and_every_family_has_its_turn(said):
    families = [DOMAIN.family(name) for name in ("arith.add_carry", "arith.sum_terms")]
    many = [family.make(seed) for family in families for seed in range(MOST)]
    asked: list[str] = []
    said(lambda *numbers: asked.append("one") or "", many)
    assert len(asked) == MOST


def test_a_teacher_that_fails_leaves_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_ENV, "the-key")
    with Teacher(lambda a, b: "") as teacher, instance(tmp_path) as pawl:
        teacher.behave = lambda body: "401"
        teacher.register(pawl.store)
        desk = PhaseDesk(pawl, teacher_model=NAME)
        assert reword(TASKS, desk.facts, desk.tools("collect")) == []
