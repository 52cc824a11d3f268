"""A recipe's first batch as the model would see it: token ids, and text with what carries loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.types import Domain, Family, Harness

OPEN, CLOSE = "⟦", "⟧"  # around what carries loss


@dataclass(kw_only=True, slots=True, frozen=True)
class SeenRow:
    """One rendered row: its ids, where the loss starts, and both parts as text."""

    ids: tuple[int, ...]
    start: int
    prompt: str
    trained: str

    def __str__(self) -> str:
        return f"{self.prompt}{OPEN}{self.trained}{CLOSE}"


def example_rows(
    domain: Domain, families: Sequence[Family], harness: Harness, count: int
) -> list[dict[str, Any]]:
    """Rows of worked answers, as a round would train on, from fixed seeds: no sealed task."""
    rows = []
    for number in range(count):
        task = families[number % len(families)].make(10_000 + number)
        messages = harness.messages(task.prompt)
        rows.append({"messages": messages, "completion": task.worked, "ends": True})
    return rows


def see_rows(base: Path, rows: Sequence[Mapping[str, Any]]) -> list[SeenRow]:
    """Render rows with a base's tokenizer, exactly as training does."""
    from transformers import AutoTokenizer

    from engine.models.renderer import render_row

    tokenizer: Any = AutoTokenizer.from_pretrained(base, local_files_only=True)
    seen = []
    for row in rows:
        ids, start = render_row(tokenizer, row["messages"], row["completion"], row["ends"])
        prompt, trained = (tokenizer.decode(part) for part in (ids[:start], ids[start:]))
        seen.append(SeenRow(ids=tuple(ids), start=start, prompt=prompt, trained=trained))
    return seen


def trained_share(rows: Sequence[SeenRow]) -> float:
    """The share of tokens that carry loss."""
    return sum(len(row.ids) - row.start for row in rows) / max(1, sum(len(r.ids) for r in rows))


def too_long(rows: Sequence[SeenRow], most: int) -> int:
    """How many rows are longer than training takes."""
    return sum(1 for row in rows if len(row.ids) > most)
