"""Figures and texts in the words of events, reasons and comparisons."""

from collections.abc import Mapping
from typing import Any


def points(value: float | None) -> str:
    """A difference of scores in percentage points with its sign; a dash when unknown."""
    return "—" if value is None else f"{100 * value:+.1f}".replace("-", "−")


def gain(figures: Mapping[str, Any]) -> str:
    """A paired difference with its 95 % interval."""
    low, high = points(figures["low"]), points(figures["high"])
    return f"{points(figures['difference'])} points [{low}, {high}]"


def score(value: float | None) -> str:
    """A mean with three decimals; a dash when unknown."""
    return "—" if value is None else f"{value:.3f}"


def plain_text(text: str) -> str:
    """Text as it is compared for equality: case and white space do not count."""
    return " ".join(text.casefold().split())
