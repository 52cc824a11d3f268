"""The Verifier `exact-number-v1`: one exact value in its canonical spelling, anything else is 0.

An answer counts as one non-blank line that is the bare value, or as reasoning whose last
non-empty line is the only marker `ANSWER: <value>`. Marker-like texts are counted loosely and
values are accepted strictly, so a look-alike can only lose points. Nothing is ever evaluated:
a canonical spelling is unique, so comparing values is comparing texts.

`checker` is {"kind": KIND, "value": TEXT}, with KIND one of
    integer             42, -7, 0
    decimal             3.25, 4, -0.5 (no trailing zero after the point)
    fraction            -3/4 (lowest terms, denominator at least 2)
    quotient_remainder  12 r 5 (single blanks around the r)
    digits              1A0 in the base that the checker names as "base" (capitals, no prefix)

Reasons: right, wrong_value, empty, no_value, not_canonical, several_markers, marker_not_last,
too_long, not_text; bad_checker comes with no score at all, because the task is at fault.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from engine.types import Task, Verdict, Verifier

LONGEST = 20_000  # code points of the raw reply
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_LINE_END = re.compile(r"\r\n|\n|\r")
_MARKER_LIKE = re.compile(r"answer\s*[:\uA789]", re.IGNORECASE)  # NFKC folds the other colons
_MARKER = re.compile(r"ANSWER:[ \t]*(\S.*)")
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
_FRACTION = re.compile(r"-?([1-9][0-9]*)/([1-9][0-9]*)")
_QUOTIENT = re.compile(r"(?:0|-?[1-9][0-9]*) r (?:0|[1-9][0-9]*)")
_DIGITS = re.compile(r"0|[1-9A-Z][0-9A-Z]*")
_NUMBER_MARKS = frozenset("+-\u2212.,_'/rR$")  # what people put beside digits


def verify(task: Task, text: str) -> Verdict:
    """Score 1.0 when the answer names exactly the value of the task's checker, else 0.0."""
    is_value = _grammar(task.checker)
    gold = task.checker.get("value")
    if is_value is None or not isinstance(gold, str) or not is_value(gold):
        return Verdict(score=None, reason="bad_checker")
    found, reason = answer_place(text)
    if found is None:
        return Verdict(score=0.0, reason=reason)
    if found == gold:
        return Verdict(score=1.0, reason="right", parsed=found)
    if any(known(found) for known in (is_value, *_KINDS.values())):
        return Verdict(score=0.0, reason="wrong_value", parsed=found)
    return Verdict(score=0.0, reason="not_canonical" if _looks_numeric(found) else "no_value")


EXACT_NUMBER = Verifier(name="exact-number-v1", verify=verify)


def answer_place(text: str) -> tuple[str | None, str]:
    """The text at the place where an answer counts, or None with the reason why there is none."""
    if not isinstance(text, str):
        return None, "not_text"
    if len(text) > LONGEST:
        return None, "too_long"
    lines = _lines(text.removeprefix("\ufeff"))
    if not lines:
        return None, "empty"
    markers = len(_MARKER_LIKE.findall(_folded(text)))
    if markers > 1:
        return None, "several_markers"
    if markers == 0:
        return (lines[0], "") if len(lines) == 1 else (None, "no_value")
    marker = _MARKER.fullmatch(lines[-1])
    return (marker[1], "") if marker else (None, "marker_not_last")


def _lines(text: str) -> list[str]:
    # str.splitlines and a bare str.strip would also act on U+2028, NEL or NBSP, which are text here
    trimmed = (line.strip(" \t") for line in _LINE_END.split(text))
    return [line for line in trimmed if line]


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text)
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")


def _looks_numeric(found: str) -> bool:
    """Whether a near miss was meant as a number: this chooses the reason, never the score."""
    marks = [char for char in _folded(found) if not char.isdigit()]
    if len(marks) == len(_folded(found)):
        return False
    return all(char.isspace() or char in _NUMBER_MARKS for char in marks) or found.isalnum()


def _grammar(checker: Mapping[str, Any]) -> Callable[[str], bool] | None:
    kind = checker.get("kind")
    if kind == "digits":
        base = checker.get("base")
        return _is_digits(base) if isinstance(base, int) and 2 <= base <= 36 else None
    return _KINDS.get(kind) if isinstance(kind, str) else None


def _is_integer(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None


def _is_decimal(text: str) -> bool:
    return _DECIMAL.fullmatch(text) is not None and text != "-0"


def _is_fraction(text: str) -> bool:
    found = _FRACTION.fullmatch(text)
    if found is None or max(len(found[1]), len(found[2])) > 100:  # int() refuses very long text
        return False
    return found[2] != "1" and math.gcd(int(found[1]), int(found[2])) == 1


def _is_quotient(text: str) -> bool:
    return _QUOTIENT.fullmatch(text) is not None


def _is_digits(base: int) -> Callable[[str], bool]:
    allowed = frozenset(ALPHABET[:base])
    return lambda text: _DIGITS.fullmatch(text) is not None and allowed.issuperset(text)


_KINDS: dict[str, Callable[[str], bool]] = {
    "integer": _is_integer,
    "decimal": _is_decimal,
    "fraction": _is_fraction,
    "quotient_remainder": _is_quotient,
}
