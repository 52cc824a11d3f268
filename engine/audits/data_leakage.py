"""Data leakage: no training row may meet a task that versions are judged on."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlmodel import Session, select

from data.tables import Task, TrainingRow
from engine.audits.finding import Finding, judged
from engine.facts import Library, RunFacts
from engine.words import plain_text

NAME = "data_leakage"
AFTER = ("admit", "blind")
NGRAM = 13  # words


def examine(
    session: Session, run: RunFacts, library: Library, round_: int, past: dict[str, Any]
) -> Finding:
    """Compare every row of the run with dev, guard and held-out; blind gives counts of its own."""
    rows = session.exec(select(TrainingRow).where(TrainingRow.run == run.id)).all()
    dev = session.exec(select(Task).where(Task.run == run.id, Task.split == "dev")).all()
    overlap = past.get("blind", {}).get("overlap", {})
    problems = [
        *_collisions(rows, dev, library),
        *_held_out_rows(rows, run),
        *_blind_overlap(overlap),
    ]
    judged_on = len(dev) + overlap.get("hidden_tasks", len(library.guard.tasks))
    return judged(problems, f"0 collisions of {len(rows)} rows with {judged_on} tasks")


def _collisions(
    rows: Sequence[TrainingRow], dev: Sequence[Task], library: Library
) -> list[tuple[str, str]]:
    keys = {task.canonical_key for task in dev}
    guard = {plain_text(task.prompt) for task in library.guard.tasks}
    texts = guard | {plain_text(task.prompt) for task in dev}
    grams = {True: _all_grams(guard), False: _all_grams(texts)}
    problems = []
    by_key = sum(1 for row in rows if row.canonical_key in keys)
    prompts = [plain_text(row.messages[-1]["content"]) for row in rows]
    by_text = sum(1 for prompt in prompts if prompt in texts)
    # Generated tasks share their templates' wording by design; there the canonical key tells.
    by_gram = sum(
        1
        for row, prompt in zip(rows, prompts, strict=True)
        if not grams[row.canonical_key is not None].isdisjoint(_grams(prompt))
    )
    if by_key:
        problems.append(("KEY_COLLISION", f"{by_key} rows ask what a dev task asks"))
    if by_text:
        problems.append(("TEXT_COLLISION", f"{by_text} rows have the text of a dev or guard task"))
    if by_gram:
        problems.append(("NGRAM_OVERLAP", f"{by_gram} rows share {NGRAM} words with a hidden task"))
    return problems


def _held_out_rows(rows: Sequence[TrainingRow], run: RunFacts) -> list[tuple[str, str]]:
    held_out = {family.id for family in run.domain.families if family.role == "held_out"}
    found = sum(1 for row in rows if row.family in held_out)
    if not found:
        return []
    return [("HELDOUT_FAMILY_IN_TRAIN", f"{found} rows are of a held-out family")]


def _blind_overlap(overlap: dict[str, int]) -> list[tuple[str, str]]:
    met = overlap.get("keys", 0) + overlap.get("texts", 0)
    if not met:
        return []
    return [("KEY_COLLISION", f"{met} blind, held-out or guard tasks meet a training row")]


def _all_grams(texts: Iterable[str]) -> set[tuple[str, ...]]:
    return {gram for text in texts for gram in _grams(text)}


def _grams(text: str) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[i : i + NGRAM]) for i in range(len(words) - NGRAM + 1)]
