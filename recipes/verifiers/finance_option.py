"""The Verifier `finance-option-v2`: one offered option, named bare or by one marker at the end.

An answer counts as a bare option ID, or as reasoning whose last non-empty line is exactly one
marker `ANSWER: <ID>`. Markers are counted loosely (any case, look-alike colons, invisible
characters) and accepted strictly, so a look-alike can only lose points. IDs are compared whole and
byte by byte. Nothing is stripped that a model's own reply may hold beside blanks: control tokens,
quotes and code fences are part of the answer.

`checker` is {"options": [ID, ...], "gold": ID}; `parsed` is the option that the reply names.

Reasons: bare_id, marker, marker_only, empty, no_marker, several_markers,
marker_not_last_or_malformed, unknown_option, too_long, not_text; bad_checker comes with no score
at all, because the task is at fault.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from engine.types import Task, Verdict, Verifier

LONGEST = 20_000  # code points of the raw reply

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_LINE_END = re.compile(r"\r\n|\n|\r")
_MARKER_LIKE = re.compile(r"answer\s*[:\uA789]", re.IGNORECASE)  # NFKC folds the other colons
_MARKER = re.compile(r"ANSWER:[ \t]*(\S+)")


def verify(task: Task, text: str) -> Verdict:
    """Score 1.0 when the reply names exactly the gold option, else 0.0 with the reason."""
    if not _is_fair(task.checker):
        return Verdict(score=None, reason="bad_checker")
    option, reason = named_option(task.checker["options"], text)
    right = option is not None and option == task.checker["gold"]
    return Verdict(score=float(right), reason=reason, parsed=option)


FINANCE_OPTION = Verifier(name="finance-option-v2", verify=verify)


def named_option(options: Sequence[str], text: Any) -> tuple[str | None, str]:
    """The option that a reply names, or None, with the reason either way."""
    if not isinstance(text, str):
        return None, "not_text"
    if len(text) > LONGEST:
        return None, "too_long"
    lines = _lines(text.removeprefix("\ufeff"))
    if not lines:
        return None, "empty"
    if len(lines) == 1 and lines[0] in options:
        return lines[0], "bare_id"
    markers = len(_MARKER_LIKE.findall(_folded(text)))
    if markers != 1:
        return None, "several_markers" if markers else "no_marker"
    marker = _MARKER.fullmatch(lines[-1])
    if marker is None:
        return None, "marker_not_last_or_malformed"
    if marker[1] not in options:
        return None, "unknown_option"
    return marker[1], "marker" if len(lines) > 1 else "marker_only"


def _is_fair(checker: Mapping[str, Any]) -> bool:
    """Whether the options are distinct, none could be taken for a marker, and gold is one."""
    options = checker.get("options")
    if not isinstance(options, list) or not all(isinstance(one, str) for one in options):
        return False
    folded = {one.casefold() for one in options}
    plain = all(_ID.fullmatch(one) and not one.casefold().startswith("answer") for one in options)
    return plain and len(folded) == len(options) >= 2 and checker.get("gold") in options


def _lines(text: str) -> list[str]:
    # str.splitlines and a bare str.strip would also act on U+2028, NEL or NBSP, which are text here
    trimmed = (line.strip(" \t") for line in _LINE_END.split(text))
    return [line for line in trimmed if line]


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text)
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")
