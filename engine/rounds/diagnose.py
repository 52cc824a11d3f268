"""Diagnose: the best version on fresh tasks; which families and difficulties fail, and how."""

from typing import Any

from sqlmodel import Session

from engine.answers import measure
from engine.draws import draw_fresh, plain_draws, read_task, record_draws, record_tasks
from engine.evaluations import Scored, family_means, record_evaluation
from engine.facts import RunFacts, Tools, derived_seed
from engine.rounds.prepare import run_protocol
from engine.versions import best_version, describe, model_of

NAME = "diagnose"
USES_DEVICE = True


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """Draw fresh diagnosis tasks of every training family."""
    drawn, following = [], {}
    for family in run.config.families:
        found, following[family.id] = draw_fresh(
            session, run, "diag", family, run.config.limits.diag_per_family
        )
        drawn += found
    return {
        "tasks": plain_draws(drawn),
        "following": following,
        "version": describe(best_version(session, run.id)),
    }


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Answer them with the best version so far."""
    return measure(
        tools,
        model_of(tools, work["version"]),
        [read_task(one["task"]) for one in work["tasks"]],
        run.config.harness,
        run.domain.verifier,
        label="diagnosis answers",
        seed=_seed(run, tools.round),
    )


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write tasks and samples; the summary names right and n by family and by difficulty."""
    record_tasks(session, run, "diag", work["tasks"], round_)
    record_draws(session, run.id, "diag", work["following"])
    ids = [read_task(one["task"]).id for one in work["tasks"]]
    scored = Scored(
        round=round_,
        version=work["version"]["name"],
        version_hash=work["version"]["hash"],
        suite=run.domain.name,
        split="diag",
        protocol=run_protocol(run, result, ids, _seed(run, round_)),
        planned=len(ids),
        seconds=result["seconds"],
    )
    graded = result["graded"]
    evaluation = record_evaluation(session, run, scored, graded)
    wrong = sum(1 for one in graded if one["score"] is not None and one["score"] < 1)
    failing = sum(1 for family in evaluation.families.values() if family["mean"] < 1)
    return {
        "families": evaluation.families,
        "strata": _strata(graded),
        "reasons": _reasons(graded),
        "text": f"{wrong} of {len(graded)} wrong, {failing} families",
    }


def _seed(run: RunFacts, round_: int) -> int:
    return derived_seed(run.secret, f"diagnose|{round_}")


def _strata(graded: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Mean and n by difficulty inside each family."""
    families = sorted({one["family"] for one in graded})
    return {
        family: family_means([one for one in graded if one["family"] == family], by="stratum")
        for family in families
    }


def _reasons(graded: list[dict[str, Any]]) -> dict[str, int]:
    """How often the Verifier gave each reason for a wrong answer."""
    counts: dict[str, int] = {}
    for one in graded:
        if one["score"] is not None and one["score"] < 1:
            counts[one["reason"]] = counts.get(one["reason"], 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))
