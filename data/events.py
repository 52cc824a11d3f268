"""The live view's lines: appended with a sequence number that never repeats in a run."""

import unicodedata

from sqlalchemy import func
from sqlmodel import Session, select

from data.tables import Event, Live, now

KINDS = frozenset({"message", "tool_call", "tool_result", "steer", "round", "job", "error"})
TEXT_LIMIT = 500


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
    assert kind in KINDS, f"event kind {kind} is not one of {sorted(KINDS)}"
    last = session.exec(select(func.max(Event.seq)).where(Event.run == run)).one()
    seq = (last or 0) + 1
    session.add(Event(run=run, seq=seq, kind=kind, role=role, tool=tool, text=one_line(text)))
    session.flush()
    return seq


def show(session: Session, run: str, **fields: object) -> None:
    """Overwrite some fields of what the run does at this moment."""
    live = session.get(Live, run) or Live(run=run)
    for name, value in fields.items():
        setattr(live, name, value)
    live.updated_at = now()
    session.add(live)


def one_line(text: str) -> str:
    """Text for a one-line place: line breaks and control characters become spaces, then cut."""
    spaced = "".join(" " if _breaks(char) else char for char in text)
    line = " ".join(spaced.split())
    return line if len(line) <= TEXT_LIMIT else line[: TEXT_LIMIT - 1] + "…"


def _breaks(char: str) -> bool:
    """Whether a character would break or disturb a line: controls, separators, bidi marks."""
    return unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp", "Cs"}
