"""The guard suite with its Verifier: what earns a point, what cannot, what replay may not touch."""

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.types import Task, Verdict
from recipes.guard import GUARD
from recipes.replay import REPLAY_MAX_TOKENS, REPLAY_PROMPTS, REPLAY_SYSTEMS
from recipes.verifiers.guard_word import LONGEST

BY_PROMPT = {task.prompt: task for task in GUARD.tasks}
FRANCE = BY_PROMPT["What is the capital of France?"]
LEGS = BY_PROMPT["How many legs does a cat have?"]
LIGHT = BY_PROMPT["What is the opposite of light?"]
ICE = BY_PROMPT["Is ice hot? Answer yes or no."]


def judged(task: Task, text: Any) -> Verdict:
    return GUARD.verifier.verify(task, text)


def share_right(reply: Any) -> float:
    """The share of the suite that one fixed reply, or one made from each task, gets right."""
    replies = [reply(task) if callable(reply) else reply for task in GUARD.tasks]
    scores = [judged(task, text).score for task, text in zip(GUARD.tasks, replies, strict=True)]
    return scores.count(1.0) / len(scores)


# The suite


def test_the_suite_is_large_and_of_five_kinds() -> None:
    kinds = Counter(task.stratum for task in GUARD.tasks)
    assert len(GUARD.tasks) >= 120
    assert set(kinds) == {"facts", "opposites", "copying", "counting", "yes or no"}
    assert min(kinds.values()) >= 24


def test_every_item_is_one_of_a_kind_and_short() -> None:
    for names in (
        [task.id for task in GUARD.tasks],
        [task.prompt for task in GUARD.tasks],
        [task.canonical_key for task in GUARD.tasks],
    ):
        assert len(set(names)) == len(GUARD.tasks)
    assert max(len(task.prompt) for task in GUARD.tasks) <= 60
    assert GUARD.max_tokens <= 24


def test_a_bare_word_and_a_short_sentence_are_right_on_every_item() -> None:
    for form in ("{}", "{}.", "The answer is {}.", "{}, of course.", "\n{}\n", "It is **{}**!"):
        assert share_right(lambda task, form=form: form.format(task.worked)) == 1.0
    for case in (str.upper, str.lower):
        assert share_right(lambda task, case=case: case(task.worked)) == 1.0


def test_no_reply_that_is_always_the_same_gets_far() -> None:
    for word in {task.worked for task in GUARD.tasks}:
        assert share_right(word) <= 0.08, word
    for reply in ("", "42", "I do not know.", "The answer is", "yes and no", "Yes. No."):
        assert share_right(reply) == 0.0, reply


def test_naming_every_answer_is_never_right() -> None:
    words = sorted({word for task in GUARD.tasks for word in task.checker["gold"]})
    assert share_right(", ".join(words)) == 0.0
    assert share_right("\n".join(words)) == 0.0


def test_repeating_the_question_is_right_where_the_task_is_to_repeat() -> None:
    right = [task for task in GUARD.tasks if judged(task, task.prompt).score == 1.0]
    assert {task.stratum for task in right} == {"copying"}


def test_yes_and_no_are_right_equally_often_in_each_wording() -> None:
    yes_or_no = [task for task in GUARD.tasks if task.stratum == "yes or no"]
    golds = Counter((task.template_id, task.worked) for task in yes_or_no)
    assert set(golds.values()) == {6}


# The Verifier


@pytest.mark.parametrize(
    ("task", "reply", "reason"),
    [
        (FRANCE, "Paris", "right"),
        (FRANCE, "The capital of France is Paris.", "right"),
        (FRANCE, "The capital of France is Paris, a city on the Seine. It is lar", "right"),
        (FRANCE, " \r\n\tparis\r\nIt lies on the Seine.", "right"),
        (FRANCE, "Lyon", "no_word"),
        (FRANCE, "Sure! The capital of France is Paris.", "no_word"),
        (FRANCE, "Well.\nParis.", "no_word"),
        (FRANCE, "Parisian", "no_word"),
        (FRANCE, "P\u0430ris", "no_word"),  # Cyrillic a
        (FRANCE, "\uff30aris", "no_word"),
        (FRANCE, "Madrid", "wrong_word"),
        (FRANCE, "Paris or Madrid", "hedged"),
        (FRANCE, "Paris.\nOr is it Ma\u200bdrid?", "hedged"),
        (FRANCE, "Paris, not \uff2dadrid", "hedged"),
        (FRANCE, "", "empty"),
        (FRANCE, " \t\r\n", "empty"),
        (FRANCE, "Paris" * LONGEST, "too_long"),
        (FRANCE, None, "not_text"),
        (LEGS, "A cat has four legs.", "right"),
        (LEGS, "4", "right"),
        (LEGS, "44", "no_word"),
        (LEGS, "A cat has 4 or 5 legs.", "hedged"),
        (LIGHT, "The opposite of light is darkness.", "right"),
        (LIGHT, "Light", "no_word"),
        (ICE, "No, ice is cold.", "right"),
        (ICE, "No. Yes.", "hedged"),
        (ICE, "Yes or no.", "hedged"),
        (ICE, "Yes.", "wrong_word"),
        (ICE, "Nobody knows", "no_word"),
    ],
)
def test_replies_and_their_reasons(task: Task, reply: Any, reason: str) -> None:
    verdict = judged(task, reply)
    assert verdict.reason == reason
    assert verdict.score == (1.0 if reason == "right" else 0.0)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_gets_a_verdict(text: str) -> None:
    for task in (FRANCE, LEGS, ICE):
        assert judged(task, text).score in (0.0, 1.0)
        assert judged(task, f"{task.worked}\n{text}").score in (0.0, 1.0)


def test_a_faulty_checker_gives_no_verdict_instead_of_a_zero() -> None:
    faulty: tuple[dict[str, Any], ...] = (
        {},
        {"gold": [], "wrong": []},
        {"gold": ["a"]},
        {"gold": "a", "wrong": []},
    )
    for checker in faulty:
        task = Task(
            family="guard.facts",
            version="1",
            prompt="?",
            checker=checker,
            worked="a",
            canonical_key="guard.facts|?",
            template_id="?",
            stratum="facts",
        )
        assert judged(task, "a") == Verdict(score=None, reason="bad_checker")


# Replay


def test_there_are_enough_replay_prompts_for_a_mix() -> None:
    assert len(REPLAY_PROMPTS) >= 100
    assert len(set(REPLAY_PROMPTS)) == len(REPLAY_PROMPTS)
    assert GUARD.system not in REPLAY_SYSTEMS
    assert REPLAY_MAX_TOKENS <= 32


def test_no_replay_prompt_shares_a_wording_with_the_guard() -> None:
    guard = {run for task in GUARD.tasks for run in runs_of_four(task.prompt)}
    for prompt in REPLAY_PROMPTS:
        assert not guard & runs_of_four(prompt), prompt


def test_no_replay_prompt_is_about_an_item_of_the_guard() -> None:
    """At most one telling word in common, such as "opposite" alone or "red" alone."""
    items = [told(" ".join((task.prompt, *task.checker["gold"]))) for task in GUARD.tasks]
    for prompt in REPLAY_PROMPTS:
        assert max(len(told(prompt) & item) for item in items) <= 1, prompt


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def runs_of_four(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[start : start + 4]) for start in range(len(found) - 3)}


def told(text: str) -> set[str]:
    return set(words(text)) - set(words(UNTELLING))


UNTELLING = """
    a an and are be called can city do does for give has have how in is it list live many me most
    name named number of on one or people say tell that the there this to what where which who with
    word yes no answer
"""
