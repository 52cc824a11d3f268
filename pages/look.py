"""The look that every page shares: style sheet, static script, the mark."""

import re
from pathlib import Path

from nicegui import ui

HERE = Path(__file__).parent
CSS = (HERE / "look.css").read_text()
SCRIPT = (HERE / "look.js").read_text()
LOGO = HERE / "logo.svg"


def _mark() -> str:
    """The logo's shapes with the classes that make them follow the console's theme."""
    paths = re.findall(r"<path.*?/>", LOGO.read_text())
    shapes = "".join(paths).replace('class="w"', 'class="mark-w"')
    shapes = shapes.replace('class="p"', 'class="mark-p"')
    return f'<svg viewBox="0 0 32 32" aria-hidden="true">{shapes}</svg>'


MARK = _mark()


def add_to_all_pages() -> None:
    """Put style and script into the first response of every page, before anything is painted."""
    ui.add_head_html(f"<style>{CSS}</style>", shared=True)
    ui.add_body_html(f"<script>{SCRIPT}</script>", shared=True)


def mark(classes: str = "") -> ui.html:
    """The mark, drawn in the theme's colours."""
    return ui.html(MARK, sanitize=False).classes(classes)
