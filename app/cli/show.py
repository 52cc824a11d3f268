"""How answers are printed: JSON, tables, single lines. Control characters never reach a terminal."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
NONE = "-"
FAILED = frozenset({"failed", "FAILED", "CANCELLED", "RETRYABLE_FAILED", "BLOCKED"})


def exit_code(answer: Any) -> int:
    """1 for an answer that tells of a failure although it was given, else 0."""
    if not isinstance(answer, dict):
        return 0
    return int(answer.get("status") in FAILED or bool(answer.get("skipped")))


def print_json(answer: Any) -> None:
    """The whole answer as JSON on one line."""
    text = json.dumps(answer, ensure_ascii=False)
    print(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text), flush=True)


def plain(value: Any) -> str:
    """A value as one line of text; a dash for what is not known."""
    if value is None or value == "":
        return NONE
    return CONTROL.sub(" ", str(value))


def moment(value: Any) -> str:
    """An ISO 8601 time of the API in a form that is easy to read, in UTC as it came."""
    return re.sub(r"T(\d\d:\d\d:\d\d)(\.\d+)?", r" \1", plain(value))


def duration(seconds: int | None) -> str:
    """Seconds as people say them: 40s, 5m 02s, 1h 07m."""
    if seconds is None:
        return NONE
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02}s"
    return f"{seconds // 3600}h {seconds % 3600 // 60:02}m"


def print_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns as wide as their widest cell."""
    lines = [list(head), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def print_fields(fields: dict[str, Any]) -> None:
    """One line per field, its name padded."""
    width = max(map(len, fields)) + 1
    for name, value in fields.items():
        print(f"{name + ':':{width}} {plain(value)}")
