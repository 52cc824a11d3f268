"""The live view's lines: appended with a sequence number that never repeats in a run."""

import unicodedata
from collections import Counter
from typing import Any

from sqlalchemy import func, insert, select
from sqlmodel import Session, col

from data import crash
from data.store import Store
from data.tables import Event, Live, now

KINDS = frozenset({"message", "tool_call", "tool_result", "steer", "round", "job", "error"})
TEXT_LIMIT = 500

_INSERT = insert(Event)


def append(
    session: Session,
    run: str,
    kind: str,
    text: str,
    *,
    role: str = "engine",
    tool: str | None = None,
) -> int:
    """Add one event and return its number; the text is cut to one line of 500 characters."""
    return _number_and_insert(session, [_fields(run, kind, text, role, tool)])[run]


def post(
    store: Store,
    run: str,
    kind: str,
    text: str,
    *,
    role: str = "engine",
    tool: str | None = None,
) -> None:
    """Like `append`, without waiting and many to a commit: for progress."""
    store.post_row(_number_and_insert, _fields(run, kind, text, role, tool))


def show(session: Session, run: str, **fields: object) -> None:
    """Overwrite some fields of what the run does at this moment."""
    live = session.get(Live, run) or Live(run=run)
    if "done" in fields:
        _mark_beginning(live, fields["done"])
    for name, value in fields.items():
        setattr(live, name, value)
    live.updated_at = now()
    session.add(live)


def _mark_beginning(live: Live, done: object) -> None:
    """Keep where a count begins, and when: how fast it goes is told from there."""
    if done is None:
        live.first_done = live.first_at = None
    elif isinstance(done, int) and (live.done is None or done < live.done):
        live.first_done, live.first_at = done, now()


def post_show(store: Store, run: str, **fields: object) -> None:
    """Like `show`, without waiting; of what comes close together the last is written."""
    store.post_row(_show_last, (run, fields))


def one_line(text: str) -> str:
    """Text for a one-line place: line breaks and control characters become spaces, then cut."""
    if not text.isprintable():
        text = "".join(" " if _breaks(char) else char for char in text)
    line = " ".join(text.split())
    return line if len(line) <= TEXT_LIMIT else line[: TEXT_LIMIT - 1] + "…"


def _fields(run: str, kind: str, text: str, role: str, tool: str | None) -> dict[str, Any]:
    assert kind in KINDS, f"event kind {kind} is not one of {sorted(KINDS)}"
    line = one_line(text)
    return {"run": run, "kind": kind, "role": role, "tool": tool, "text": line, "at": now()}


def _number_and_insert(session: Session, rows: list[dict[str, Any]]) -> Counter[str]:
    """Insert events, numbered on from what is in the database; the last number of each run.

    There is one writer, and it looks anew each time: what was undone leaves no gap behind.
    """
    last: Counter[str] = Counter()
    for run in {row["run"] for row in rows}:
        query = select(func.max(col(Event.seq))).where(col(Event.run) == run)
        last[run] = session.execute(query).scalar_one() or 0
    for row in rows:
        last[row["run"]] += 1
        row["seq"] = last[row["run"]]
    session.connection().execute(_INSERT, rows)
    crash.point("in_event")
    return last


def _show_last(session: Session, rows: list[tuple[str, dict[str, object]]]) -> None:
    latest: dict[str, dict[str, object]] = {}
    for run, fields in rows:
        latest.setdefault(run, {}).update(fields)
    for run, fields in latest.items():
        show(session, run, **fields)


def _breaks(char: str) -> bool:
    """Whether a character would break or disturb a line: controls, separators, bidi marks."""
    return unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp", "Cs"}
