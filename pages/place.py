"""Where on a run's page somebody is: the open tab and what it is asked to show, in the address."""

from collections.abc import Callable, Mapping
from typing import Any

from pages.browser import Address

ALIASES = {"live": "overview"}
FIRST = "overview"


class Place:
    """Reload, back and a copied address lead to the same place.

    `names` says for each tab which fields of the address are its own; what a tab was asked is
    kept while another one is open.
    """

    def __init__(
        self,
        path: str,
        query: dict[str, str],
        names: Mapping[str, tuple[str, ...]],
        on_back: Callable[[], Any],
    ) -> None:
        self._names, self._on_back = names, on_back
        self._address = Address(path, self._went_back)
        self._take(query)

    def get(self, name: str) -> str:
        """What the open tab is asked for under this name; "" for nothing."""
        return self._query.get(name, "")

    def ask(self, **values: str) -> None:
        """Ask the open tab for something else; leaves no step to go back to."""
        self._query |= values
        self._show(replace=True)

    def open(self, tab: str) -> None:
        """Go to another tab."""
        self.tab = tab
        self._show()

    def _show(self, *, replace: bool = False) -> None:
        own = {name: self._query.get(name) for name in self._names[self.tab]}
        tab = None if self.tab == FIRST else self.tab
        self._address.show({"tab": tab, **own}, replace=replace)

    def _take(self, query: dict[str, str]) -> None:
        asked = query.get("tab", FIRST)
        tab = ALIASES.get(asked, asked)
        self.tab = tab if tab in self._names else FIRST
        self._query = {name: value[:64] for name, value in query.items()}

    def _went_back(self, query: dict[str, str]) -> Any:
        self._take(query)
        return self._on_back()
