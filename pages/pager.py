"""The shared footer of a list: which page of it is shown, how long a page is, the way to the next."""

from collections.abc import Callable

from nicegui import ui

from pages.parts import box, named, text

PAGE_SIZES = [10, 25, 50, 100]
PAGE_SIZE = 25
MOST_DIGITS = 12  # of a number in the address


class Pager:
    """Where in a list somebody is; `go` is called when they go elsewhere in it."""

    def __init__(self, query: dict[str, str], go: Callable[[], None]) -> None:
        self._go = go
        self.take(query)

    def take(self, query: dict[str, str]) -> None:
        """Go where an address says; what it says wrongly counts for nothing."""
        limit = _whole(query.get("limit"), PAGE_SIZE)
        self.limit = limit if limit in PAGE_SIZES else PAGE_SIZE
        self.cursor = query.get("cursor")
        self.start = _whole(query.get("start"), 0) if self.cursor else 0
        self._back: list[tuple[str | None, int]] = []

    def first(self) -> None:
        """Back to the first page: something else is listed now."""
        self.cursor, self.start, self._back = None, 0, []

    def fields(self) -> dict[str, str | None]:
        """What an address has to say to lead here again."""
        return {
            "limit": str(self.limit) if self.limit != PAGE_SIZE else None,
            "cursor": self.cursor,
            "start": str(self.start) if self.start else None,
        }

    def draw(self, count: int, next_cursor: str | None, total: int | None = None) -> None:
        """The footer under `count` items; `total` is left out where nobody has counted them."""
        self._count, self._next_cursor = count, next_cursor
        with box("pw-tfoot"):
            text("Rows per page")
            size = ui.select(
                PAGE_SIZES, value=self.limit, on_change=lambda event: self._resize(event.value)
            )
            named(size.props("outlined dense options-dense"), "Rows per page")
            of = "" if total is None else f" of {total}"
            text(f"{self.start + 1}–{self.start + count}{of}")
            _step("sym_o_chevron_left", "Previous page", self._previous, self.start > 0)
            _step("sym_o_chevron_right", "Next page", self._next, next_cursor is not None)

    def _resize(self, limit: int) -> None:
        self.limit = limit
        self.first()
        self._go()

    def _next(self) -> None:
        if self._next_cursor is None:
            return
        self._back.append((self.cursor, self.start))
        self.start += self._count
        self.cursor = self._next_cursor
        self._go()

    def _previous(self) -> None:
        self.cursor, self.start = self._back.pop() if self._back else (None, 0)
        self._go()


def _step(icon_name: str, label: str, go: object, possible: bool) -> None:
    button = ui.button(icon=icon_name, color=None, on_click=go)  # type: ignore[arg-type]
    button.props(f'no-caps flat aria-label="{label}"').classes("pw-flat pw-sm pw-icon")
    button.mark(label.lower().replace(" ", "-")).set_enabled(possible)


def _whole(text_value: str | None, otherwise: int) -> int:
    fits = text_value is not None and text_value.isdecimal() and len(text_value) <= MOST_DIGITS
    return int(str(text_value)) if fits else otherwise
