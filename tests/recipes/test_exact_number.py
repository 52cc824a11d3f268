"""The Verifier exact-number-v1: what counts as an answer, in which spelling, for which reason."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.types import Task, Verdict
from recipes.verifiers.exact_number import EXACT_NUMBER, LONGEST


def judged(text: Any, value: str = "42", kind: str = "integer", **more: Any) -> Verdict:
    checker = {"kind": kind, "value": value, **more}
    task = Task(
        family="toy.number",
        version="1",
        prompt="?",
        checker=checker,
        worked=value,
        canonical_key=f"toy|{value}",
        template_id="?",
        stratum="any",
    )
    return EXACT_NUMBER.verify(task, text)


@pytest.mark.parametrize(
    "text",
    [
        "42",
        "  42\t\n\n",
        "\r\n42\r",
        "\ufeff42",
        "ANSWER: 42",
        "ANSWER:42",
        "17 + 25: seven and five make twelve.\nANSWER: 42",
        "It could be 41 or 43, so I add again.\r\rANSWER:\t42 \r\n",
    ],
)
def test_a_bare_value_or_one_marker_at_the_end_is_right(text: str) -> None:
    assert judged(text) == Verdict(score=1.0, reason="right", parsed="42")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \t\r\n", "empty"),
        ("\ufeff \n", "empty"),
        ("\u00a0", "no_value"),
        ("41", "wrong_value"),
        ("ANSWER: 41", "wrong_value"),
        ("-42", "wrong_value"),
        ("42.5", "wrong_value"),
        ("84/2", "not_canonical"),
        ("forty-two", "no_value"),
        ("42 or 43", "no_value"),
        ("The answer is 42.", "no_value"),
        ("17 + 25 = 42", "no_value"),
        ("42\n42", "no_value"),
        ("42\n43", "no_value"),
        ("It is\n42", "no_value"),
        ("42\u202843", "not_canonical"),
        ("42\u0085", "not_canonical"),
        ("\u00a042", "not_canonical"),
        ("Answer: 42", "marker_not_last"),
        ("answer\n: 42", "marker_not_last"),
        ("ANSWER: 42\nI am sure.", "marker_not_last"),
        ("ANSWER:\n42", "marker_not_last"),
        ("**ANSWER: 42**", "marker_not_last"),
        ("ANSWER:\u00a042", "marker_not_last"),
        ("\u200bANSWER: 42", "marker_not_last"),
        ("The form is ANSWER: <value>.\nANSWER: 42", "several_markers"),
        ("ANSWER: 42\nANSWER: 42", "several_markers"),
        ("ANSWER: 41\nANSWER: 42", "several_markers"),
        ("ans\u200bwer\uff1a 41\nANSWER: 42", "several_markers"),
        ("\uff21\uff2e\uff33\uff37\uff25\uff32\ua789 41\nANSWER: 42", "several_markers"),
        ("ANSWER: ANSWER: 42", "several_markers"),
        ("ANSWER: 42 ANSWER: 42", "several_markers"),
        ("ANSWER: 42 43", "not_canonical"),
        ("ANSWER: 42.", "not_canonical"),
        ("ANSWER: about forty", "no_value"),
        ("4" * (LONGEST + 1), "too_long"),
        ("4" * LONGEST, "wrong_value"),
        (None, "not_text"),
        (42, "not_text"),
        (b"42", "not_text"),
    ],
)
def test_everything_else_scores_zero_with_a_reason(text: Any, reason: str) -> None:
    verdict = judged(text)
    assert (verdict.score, verdict.reason) == (0.0, reason)


@pytest.mark.parametrize(
    "text",
    [
        "042",
        "+42",
        "42.",
        "42.0",
        "4 2",
        "4,2",
        "4_2",
        "$42",
        "\uff14\uff12",  # fullwidth
        "\u0664\u0662",  # Arabic-Indic
        "\u2074\u00b2",  # superscript
        "\u2462\u2461",  # circled
        "4\u200b2",
        "42\u0301",
        "\u221242",  # minus sign
    ],
)
def test_no_other_spelling_of_a_number_counts(text: str) -> None:
    for said in (text, f"ANSWER: {text}"):
        verdict = judged(said)
        assert verdict.score == 0.0
        assert verdict.reason in {"not_canonical", "no_value"}
    assert judged("\u221242", value="-42").score == 0.0


@pytest.mark.parametrize(
    ("kind", "value", "others"),
    [
        ("integer", "0", ["-0", "00", "0.0", "+0"]),
        ("integer", "-7", ["7", "\u20117", "- 7", "-07", "(7)"]),
        ("decimal", "3.5", ["3.50", "03.5", "3,5", "7/2", "3.5.", ".35"]),
        ("decimal", "-0.25", ["-.25", "0.25", "-0.250"]),
        ("decimal", "4", ["4.0", "4.", "04"]),
        ("fraction", "-3/4", ["-6/8", "3/-4", "-0.75", "-3 / 4", "3/4", "-3/04"]),
        ("quotient_remainder", "12 r 5", ["12", "12r5", "12 R 5", "12  r 5", "12 r 05", "5 r 12"]),
        ("quotient_remainder", "3 r 0", ["3", "3 r", "3 r 0 r 0"]),
    ],
)
def test_each_kind_has_one_spelling(kind: str, value: str, others: list[str]) -> None:
    assert judged(value, value, kind).score == 1.0
    assert judged(f"So it is.\nANSWER: {value}", value, kind).score == 1.0
    for other in others:
        assert judged(other, value, kind).score == 0.0, other


def test_digits_are_read_in_the_base_that_the_task_states() -> None:
    assert judged("1A", "1A", "digits", base=16).score == 1.0
    for other in ("1a", "01A", "0x1A", "26", "1A."):
        assert judged(other, "1A", "digits", base=16).score == 0.0
    assert judged("1B", "1A", "digits", base=12).reason == "wrong_value"
    assert judged("1C", "1A", "digits", base=12).reason == "not_canonical"


@pytest.mark.parametrize(
    "checker",
    [
        {"kind": "integer", "value": "042"},
        {"kind": "fraction", "value": "2/4"},
        {"kind": "roman", "value": "XLII"},
        {"kind": "digits", "value": "12"},
        {"kind": "digits", "value": "12", "base": 2},
        {"kind": "digits", "value": "12", "base": True},
        {"kind": ["integer"], "value": "42"},
        {"kind": "integer", "value": 42},
    ],
)
def test_a_faulty_checker_gives_no_verdict_instead_of_a_zero(checker: dict[str, Any]) -> None:
    assert judged("42", **checker) == Verdict(score=None, reason="bad_checker")


def test_huge_texts_are_judged_quickly() -> None:
    texts = ("9" * LONGEST, "answer " * 2_857, "\ufdfa" * LONGEST, "1 " * 10_000, "7/" * 9_999)
    fractions = f"{'7' * 9_999}/{'3' * 9_999}"
    for text in (*texts, fractions):
        assert judged(text).score == 0.0
        assert judged(f"ANSWER: {text}"[:LONGEST]).score == 0.0


anything = st.text(st.characters(exclude_categories=()))
pieces = st.lists(
    st.sampled_from(["ANSWER:", "answer :", " 42", "42", "4", "\n", "\r", " r ", "."])
)


@given(st.one_of(anything, pieces.map("".join), anything.map(lambda text: f"{text}\nANSWER: 42")))
def test_any_text_gets_a_verdict_and_only_its_own_last_line_can_be_right(text: str) -> None:
    verdict = judged(text)
    assert verdict.score in (0.0, 1.0)
    assert (verdict.score == 1.0) == (verdict.reason == "right")
    if verdict.score == 1.0:
        assert text.rstrip(" \t\r\n").endswith("42")


@given(anything.filter(lambda text: text.strip(" \t\r\n") != ""))
def test_nothing_may_follow_the_marker(text: str) -> None:
    assert judged(f"ANSWER: 42\n{text}").score == 0.0


def test_the_verifier_is_named_and_hashed_by_its_source() -> None:
    assert EXACT_NUMBER.name == "exact-number-v1"
    assert len(EXACT_NUMBER.sha256) == 64
