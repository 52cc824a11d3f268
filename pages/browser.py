"""Elements that need the browser itself: times in its zone, its theme, its address bar."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from nicegui import ui


class When(ui.element, component="when.js"):
    """A stored UTC moment in the browser's zone; `form` is full, age, ago or elapsed."""

    def __init__(self, at: str | None, form: str = "full") -> None:
        super().__init__()
        self._props["at"] = at
        self._props["form"] = form


class Theme(ui.element, component="theme.js"):
    """Makes Quasar follow the theme that this browser has stored: auto, light or dark."""


class Address(ui.element, component="address.js"):
    """The part of the page's state that lives in the URL, so that reload and back work.

    `on_back` gets the query of the place that the browser went back or forward to.
    """

    def __init__(self, path: str, on_back: Callable[[dict[str, str]], Any]) -> None:
        super().__init__()
        self._path = path
        self._props["url"] = None
        self._props["replace"] = False
        self.on("back", lambda event: on_back(query_of(str(event.args))))

    def show(self, query: dict[str, str | None], *, replace: bool = False) -> None:
        """Put these query fields into the address; a replaced one leaves no step to go back to."""
        self._props["replace"] = replace
        self._props["url"] = address(self._path, query)
        self.update()


def address(path: str, query: dict[str, str | None]) -> str:
    """A path with the query fields that have a value."""
    filled = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(filled)}" if filled else path


def query_of(url: str) -> dict[str, str]:
    """The query fields of an address."""
    return dict(parse_qsl(urlsplit(url).query))
