"""Rows that somebody trains on: checked one by one, refused by number, brought into one form."""

import json
from collections.abc import Mapping
from typing import Any

from app.errors import InvalidTrainSpec
from app.steering import is_unicode

MOST_ROWS = 20_000
LONGEST_ROW = 200_000  # characters of a row's texts
ROLES = ("system", "user", "assistant")
FIELDS = frozenset({"messages", "completion", "ends", "family"})
LONGEST_FAMILY = 64


def checked_rows(rows: object) -> bytes:
    """The rows as JSON lines in the trainer's form; InvalidTrainSpec names the first bad one.

    A row is {"messages": [...], "completion": "..."}, or {"messages": [...]} whose last message is
    the assistant's. Loss falls on that answer alone. `ends` false says that it was cut off.
    """
    if not isinstance(rows, list) or not rows:
        raise InvalidTrainSpec("data.rows: give a list of at least one row")
    if len(rows) > MOST_ROWS:
        raise InvalidTrainSpec(f"data.rows: {len(rows)} rows are given; {MOST_ROWS} are the most")
    lines = [json.dumps(_row(f"data.rows[{at}]", row)) for at, row in enumerate(rows)]
    return ("\n".join(lines) + "\n").encode()


def _row(where: str, row: object) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise InvalidTrainSpec(f"{where}: give an object with messages and completion")
    unknown = sorted(str(name) for name in set(row) - FIELDS)
    if unknown:
        raise InvalidTrainSpec(f"{where}.{unknown[0]}: rows have {', '.join(sorted(FIELDS))} alone")
    messages = _messages(where, row.get("messages"))
    completion = row.get("completion")
    if completion is None:
        if len(messages) < 2 or messages[-1]["role"] != "assistant":
            raise InvalidTrainSpec(
                f"{where}: give a completion, or end the messages with the assistant's answer"
            )
        completion = messages.pop()["content"]
    if messages[-1]["role"] == "assistant":
        raise InvalidTrainSpec(f"{where}.messages: the last one before the answer is the user's")
    text = _text(f"{where}.completion", completion)
    length = len(text) + sum(len(one["content"]) for one in messages)
    if length > LONGEST_ROW:
        raise InvalidTrainSpec(f"{where}: {length} characters are more than {LONGEST_ROW}")
    return {
        "messages": messages,
        "completion": text,
        "ends": _ends(where, row.get("ends", True)),
        "family": _family(where, row.get("family", "rows")),
    }


def _messages(where: str, given: object) -> list[dict[str, str]]:
    if not isinstance(given, list) or not given:
        raise InvalidTrainSpec(f"{where}.messages: give a list of at least one message")
    return [_message(f"{where}.messages[{at}]", one) for at, one in enumerate(given)]


def _message(where: str, given: object) -> dict[str, str]:
    if not isinstance(given, Mapping) or set(given) != {"role", "content"}:
        raise InvalidTrainSpec(f"{where}: give an object of role and content")
    if given["role"] not in ROLES:
        raise InvalidTrainSpec(f"{where}.role: give one of {', '.join(ROLES)}")
    return {"role": given["role"], "content": _text(f"{where}.content", given["content"])}


def _text(where: str, given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InvalidTrainSpec(f"{where}: give a text that is not blank")
    if not is_unicode(given):
        raise InvalidTrainSpec(f"{where}: there is half a character in it")
    return given


def _ends(where: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise InvalidTrainSpec(f"{where}.ends: give true, or false where the answer was cut off")
    return given


def _family(where: str, given: object) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > LONGEST_FAMILY:
        raise InvalidTrainSpec(f"{where}.family: give 1 to {LONGEST_FAMILY} characters")
    return given
