"""Score coverage: what was planned was scored, for both versions, under one protocol."""

from typing import Any

from sqlmodel import Session, select

from data.tables import Evaluation
from engine.audits.finding import Finding, judged
from engine.facts import Library, RunFacts
from engine.gate import COVERAGE

NAME = "score_coverage"
AFTER = ("blind",)
SPLITS = ("dev", "blind", "held_out", "guard")


def examine(
    session: Session, run: RunFacts, library: Library, round_: int, past: dict[str, Any]
) -> Finding:
    """Check every evaluation that the gate of this round reads."""
    rows = session.exec(
        select(Evaluation).where(Evaluation.run == run.id, Evaluation.round == round_)
    ).all()
    rows = [row for row in rows if row.split in SPLITS]
    problems = [*_gaps(rows), *_unpaired(past["blind"]), *_sign_flip(past["blind"]["blind"])]
    scored, planned = sum(row.scored for row in rows), sum(row.planned for row in rows)
    return judged(problems, f"{scored}/{planned} scored, versions on the same tasks")


def _gaps(rows: list[Evaluation]) -> list[tuple[str, str]]:
    return [
        (
            "COVERAGE_BELOW_98",
            f"{row.version} on {row.split}: {row.scored} of {row.planned} scored",
        )
        for row in rows
        if row.planned and row.scored / row.planned < COVERAGE
    ]


def _unpaired(blind: dict[str, Any]) -> list[tuple[str, str]]:
    """Tasks that only one version was asked; a missing verdict is no such task."""
    problems = []
    for split in ("blind", "held_out", "guard"):
        figures = blind[split]
        if figures["asked"] and figures["best"]["coverage"] == 0:
            problems.append(("UNPAIRED_ITEMS", f"the best version has no scores on {split}"))
    return problems


def _sign_flip(figures: dict[str, Any]) -> list[tuple[str, str]]:
    gain, conservative = figures["difference"], figures["conservative"]
    if gain is None or gain <= 0 or conservative > 0:
        return []
    return [
        (
            "CONSERVATIVE_SIGN_FLIP",
            "the gain vanishes when missing verdicts count against the candidate",
        )
    ]
