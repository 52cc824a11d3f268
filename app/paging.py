"""Pages of a list: how long they are, and where the next one begins."""

import re
from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, col, or_

from app.errors import InvalidCursor, InvalidLimit

MOST = 100
CURSOR = re.compile(r"([0-9]{17})-([A-Za-z0-9][A-Za-z0-9._-]{0,127})")
NUMBER = re.compile(r"[0-9]{1,18}")
NO_CURSOR = "not one that this server gave out; begin without one"


def newest_first(
    session: Session, query: Any, table: Any, limit: int, cursor: str | None
) -> tuple[list[Any], str | None]:
    """Rows of a table by `created_at` and `id`, newest first, and the cursor of the next page."""
    check_limit(limit)
    if cursor is not None:
        at, row_id = read_cursor(cursor)
        older = col(table.created_at) < at
        query = query.where(or_(older, (col(table.created_at) == at) & (col(table.id) < row_id)))
    ordered = query.order_by(col(table.created_at).desc(), col(table.id).desc())
    rows = list(session.exec(ordered.limit(limit + 1)))
    more = len(rows) > limit
    return rows[:limit], make_cursor(rows[limit - 1]) if more else None


def by_number(
    session: Session, query: Any, table: Any, limit: int, cursor: str | None
) -> tuple[list[Any], str | None]:
    """Rows of a table by its counted `id`, newest first, and the cursor of the next page."""
    check_limit(limit)
    if cursor is not None:
        query = query.where(col(table.id) < read_number(cursor))
    rows = list(session.exec(query.order_by(col(table.id).desc()).limit(limit + 1)))
    return rows[:limit], str(rows[limit - 1].id) if len(rows) > limit else None


def part(items: Sequence[Any], limit: int, cursor: str | None) -> tuple[list[Any], str | None]:
    """Some of a short list that is in memory whole; the cursor counts what came before."""
    check_limit(limit)
    start = 0 if cursor is None else read_number(cursor)
    end = start + limit
    return list(items[start:end]), str(end) if end < len(items) else None


def check_limit(limit: int) -> None:
    """InvalidLimit unless a page may have that many items."""
    if not 1 <= limit <= MOST:
        raise InvalidLimit(f"limit: give 1 to {MOST}")


def make_cursor(row: Any) -> str:
    """Where the page after `row` begins: its moment in digits, then its id."""
    return f"{re.sub('[^0-9]', '', row.created_at)}-{row.id}"


def read_cursor(cursor: str) -> tuple[str, str]:
    """Moment and id of the row that a cursor stands for."""
    match = CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidCursor(f"cursor: {NO_CURSOR}")
    d, row_id = match.groups()
    day, time = f"{d[:4]}-{d[4:6]}-{d[6:8]}", f"{d[8:10]}:{d[10:12]}:{d[12:14]}.{d[14:]}"
    return f"{day}T{time}Z", row_id


def read_number(cursor: str) -> int:
    """The number that a counting cursor stands for."""
    if not NUMBER.fullmatch(cursor):
        raise InvalidCursor(f"cursor: {NO_CURSOR}")
    return int(cursor)
