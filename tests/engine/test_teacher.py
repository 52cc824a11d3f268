"""The teacher helps where it is right; the worked answer stands in wherever it is not."""

from collections import Counter
from typing import Any

import pytest

from data.tables import Account
from engine.errors import CapReached
from engine.teacher import AT_ONCE, BATCH, Lesson, teach
from engine.types import Task
from recipes.domains import DOMAINS
from tests.engine.phase_desk import PhaseDesk
from tests.instance import Instance, instance
from tests.scripted_operator import KEY_ENV, NAME, ScriptedOperator

DOMAIN = DOMAINS["arith"]
TASKS = [DOMAIN.family("arith.add_carry").make(seed) for seed in range(60)]


def lesson(pawl: Instance, teacher: str, tasks: list[Task] = TASKS, **limits: float) -> Lesson:
    desk = PhaseDesk(pawl, teacher_model=teacher, limits={"max_model_cost_usd": 1.0, **limits})
    return teach(tasks, desk.facts, desk.tools("collect"))


def sources(found: Lesson) -> Counter[str]:
    return Counter(one["source"] for one in found.helped.values())


def check_every_task_has_a_right_answer(found: Lesson) -> None:
    for task in TASKS:
        assert DOMAIN.verifier.verify(task, found.helped[task.id]["text"]).score == 1


def test_what_the_verifier_finds_wrong_is_replaced_by_the_worked_answer(tmp_path):
    with instance(tmp_path) as pawl:
        found = lesson(pawl, "sim/teacher")
    check_every_task_has_a_right_answer(found)
    assert found.answered == len(TASKS) and found.right == sources(found)["teacher"]
    assert 0 < sources(found)["generator"] < sources(found)["teacher"], "it is right 9 times in 10"
    assert {one["model"] for one in found.helped.values() if one["source"] == "teacher"} == {
        "sim/teacher"
    }
    assert found.told.startswith("answered 60 tasks, ") and found.note is None


def test_when_the_round_may_ask_no_more_what_is_there_is_kept(tmp_path):
    with instance(tmp_path) as pawl:
        found = lesson(pawl, "sim/teacher", request_cap=10)
    check_every_task_has_a_right_answer(found)
    assert found.answered == 10 and sources(found)["teacher"] == found.right > 0
    assert "request" in found.told and "asked no further" in found.told


def test_a_teacher_that_does_not_answer_is_left_after_one_batch(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_ENV, "the-key")
    with ScriptedOperator() as provider, instance(tmp_path) as pawl:
        provider.behave = lambda body: "401"
        provider.register(pawl.store)
        found = lesson(pawl, NAME)
        assert provider.did == {"401": BATCH} and AT_ONCE < BATCH
        assert sources(found) == {"generator": len(TASKS)} and "401" in str(found.note)


def test_a_hard_cap_stops_the_run_and_is_not_passed(tmp_path):
    with instance(tmp_path) as pawl:
        with pytest.raises(CapReached, match="cap"):
            lesson(pawl, "sim/teacher", max_model_cost_usd=0.0005)
        with pawl.store.read() as session:
            account: Any = session.get_one(Account, "run:r")
    assert 0 < account.model_settled <= 500 and account.model_reserved == 0
