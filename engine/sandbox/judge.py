"""Compares what code returned with what it should have, outside the sandbox and from data alone."""

import json
import math
from collections.abc import Sequence
from typing import Any

from engine.sandbox.pool import OUR_FAULT, STOPPED, Outcome
from engine.types import Verdict

DEEPEST = 40
REASONS = {
    "time": "too_slow",
    "memory": "out_of_memory",
    "output": "too_much_output",
    "raised": "raised",
}


def judge(outcome: Outcome, expected: Sequence[Any]) -> Verdict:
    """1.0 when every call returned exactly what was expected, by type and value; else 0.0.

    No verdict when the case was lost through us or not begun. What the code printed, left behind or
    raised after its last answer does not count; a line that is no honest record does.
    """
    if outcome.status in (OUR_FAULT, STOPPED):
        return Verdict(score=None, reason="sandbox_lost", parsed=outcome.why)
    lines = outcome.output.splitlines()
    for number, want in enumerate(expected):
        if number >= len(lines):
            return Verdict(score=0.0, reason=REASONS.get(outcome.status, "ended_early"))
        found = read_line(lines[number])
        if found is None or "returned" not in found:
            return Verdict(score=0.0, reason=_fault(found))
        if not same(found["returned"], want):
            return Verdict(score=0.0, reason="wrong_value")
    if len(lines) != len(expected) or outcome.status not in ("done", "raised"):
        return Verdict(score=0.0, reason=REASONS.get(outcome.status, "not_its_answers_alone"))
    return Verdict(score=1.0, reason="right")


def read_line(line: str) -> dict[str, Any] | None:
    """A record that a case sent, or None when it is not one: strict JSON, finite, not too deep."""
    try:
        found = json.loads(line, parse_constant=_refuse, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(found, dict) and len(found) == 1 and is_plain(found)
    return found if whole else None


def is_plain(value: Any, deep: int = DEEPEST) -> bool:
    """Whether a value is finite JSON of at most `deep` levels."""
    if deep < 0 or (isinstance(value, float) and not math.isfinite(value)):
        return False
    if isinstance(value, dict):
        return all(is_plain(one, deep - 1) for one in value.values())
    if isinstance(value, list):
        return all(is_plain(one, deep - 1) for one in value)
    return True


def same(found: Any, want: Any) -> bool:
    """Equal by type and value all the way down: true is not 1, and 1 is not 1.0."""
    if type(found) is not type(want):
        return False
    if isinstance(want, dict):
        return found.keys() == want.keys() and all(same(found[key], want[key]) for key in want)
    if isinstance(want, list):
        return len(found) == len(want) and all(map(same, found, want))
    return bool(found == want)


def _fault(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not_a_record"
    return "raised" if "raised" in found else "not_a_record"


def _refuse(_: str) -> None:
    raise ValueError("not a finite number")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found
