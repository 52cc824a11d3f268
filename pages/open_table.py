"""A table whose rows change in place, so that those a person has opened stay open."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

Rows = list[dict[str, Any]]


class OpenTable:
    """Draws itself with what `read` gives; `draw` gets the rows and gives the table, None without.

    `refreshed` is called after rows were put into a table that stands.
    """

    def __init__(
        self,
        read: Callable[[], Rows],
        draw: Callable[[Rows], ui.table | None],
        refreshed: Callable[[], None] = lambda: None,
    ) -> None:
        self._read, self._draw, self._refreshed = read, draw, refreshed
        self._rows = read()
        self._drawn = ui.refreshable(self._draw_now)
        self._drawn()

    def refresh(self) -> None:
        """Put new rows in; the first ones make the table."""
        rows = self._read()
        if rows == self._rows:
            return
        appeared = not self._rows
        self._rows = rows
        if appeared or self._table is None:
            self._drawn.refresh()
        else:
            self._table.rows = rows
            self._refreshed()

    def _draw_now(self) -> None:
        self._table = self._draw(self._rows)


def open_table(
    rows: Rows, columns: list[dict[str, str]], key: str, header: str, body: str, classes: str = ""
) -> ui.table:
    """A flat table of all its rows, drawn by its own head and body."""
    table = ui.table(rows=rows, columns=columns, row_key=key)
    table.props("flat dense hide-pagination").classes(classes)
    table.add_slot("header", header)
    table.add_slot("body", body)
    return table
