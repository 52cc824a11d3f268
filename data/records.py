"""JSON columns that a reader survives: what cannot be read comes out as a mark in its place."""

import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import JSON, Dialect, TypeDecorator


class Unreadable(dict[str, Any]):
    """Stands for a stored record that is not JSON, or not a JSON object; looks empty."""


class Record(TypeDecorator[dict[str, Any]]):
    """A JSON object in a column. One broken row does not spoil a query that meets it."""

    impl = JSON
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Parses the stored text."""

        def read(stored: Any) -> Any:
            try:
                record = json.loads(stored)
            except (TypeError, ValueError):
                return Unreadable()
            return record if isinstance(record, dict) else Unreadable()

        return read


def unreadable_columns(row: Any) -> list[str]:
    """The columns of a row that hold such a mark, in the order of its table."""
    return [name for name in type(row).model_fields if isinstance(getattr(row, name), Unreadable)]
