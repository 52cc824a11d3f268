"""The table of a list: rows with cells drawn by templates, and cards where the screen is narrow."""

from collections.abc import Mapping
from typing import Any

from nicegui import ui

NARROW = "Quasar.Screen.width < 1024"


def list_table(
    rows: list[dict[str, Any]], columns: list[dict[str, Any]], cells: Mapping[str, str], card: str
) -> ui.table:
    """A table over rows that have a `key`; `cells` has Vue templates by column, `card` is one."""
    table = ui.table(rows=rows, columns=columns, row_key="key")
    table.props("flat dense wrap-cells hide-pagination").classes("pw-two pw-scroll")
    table.props[":grid"] = NARROW
    for name, template in cells.items():
        table.add_slot(f"body-cell-{name}", f'<q-td :props="props">{template}</q-td>')
    table.add_slot("item", card)
    return table
