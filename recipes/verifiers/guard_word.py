"""The Verifier `guard-word-v1`: the gold word in the first sentence, no wrong alternative anywhere.

For short general questions, answered by small chat models with "Paris" or with "The capital of
France is Paris." alike. `checker` is {"kind": "word", "gold": [TEXT, ...], "wrong": [TEXT, ...]}:
one of the golds (spellings of one answer) must stand as a whole word in the first sentence of the
first line that is not blank, and none of the wrong ones in the whole reply. Case does not matter.
The gold is looked for as it is written, wrong words also behind look-alikes, so that a disguise
can only lose points.

Reasons: right, hedged (gold with a wrong one), wrong_word, no_word, empty, too_long, not_text;
bad_checker comes with no score at all, because the task is at fault.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Any

from engine.types import Task, Verdict, Verifier

LONGEST = 20_000  # code points of the raw reply

_LINE_END = re.compile(r"\r\n|\n|\r")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")


def verify(task: Task, text: str) -> Verdict:
    """Score 1.0 when the reply names the gold word first and no wrong alternative, else 0.0."""
    gold, wrong = _words(task.checker.get("gold")), _words(task.checker.get("wrong"))
    if not gold or wrong is None:
        return Verdict(score=None, reason="bad_checker")
    if not isinstance(text, str):
        return Verdict(score=0.0, reason="not_text")
    if len(text) > LONGEST:
        return Verdict(score=0.0, reason="too_long")
    sentence = first_sentence(text)
    if not sentence:
        return Verdict(score=0.0, reason="empty")
    named = _first_named(gold, sentence)
    mistaken = _first_named(wrong, _folded(text))
    if named and not mistaken:
        return Verdict(score=1.0, reason="right", parsed=named)
    reason = ("hedged" if named else "wrong_word") if mistaken else "no_word"
    return Verdict(score=0.0, reason=reason, parsed=mistaken)


GUARD_WORD = Verifier(name="guard-word-v1", verify=verify)


def first_sentence(text: str) -> str:
    """The first line that is not blank, up to the end of its first sentence."""
    lines = (line.strip(" \t") for line in _LINE_END.split(text))
    line = next((line for line in lines if line), "")
    return _SENTENCE_END.split(line, maxsplit=1)[0] or line


def _first_named(words: Iterable[str], text: str) -> str | None:
    return next((word for word in words if _whole_word(word).search(text)), None)


@cache
def _whole_word(word: str) -> re.Pattern[str]:
    # only ASCII letters match in either case: a Kelvin sign is no k
    return re.compile(rf"(?<!\w)(?ai:{re.escape(word)})(?!\w)")


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text)
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")


def _words(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, list) and all(isinstance(word, str) and word for word in value):
        return tuple(value)
    return None
