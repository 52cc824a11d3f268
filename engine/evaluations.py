"""Scores of a version on a set of tasks: from graded answers to an Evaluation with its Samples."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from data.tables import Evaluation, Sample
from engine import statistics
from engine.facts import Facts
from engine.identity import content_hash


@dataclass(kw_only=True, slots=True, frozen=True)
class Scored:
    """What an evaluation is about: which version, on what, measured how."""

    round: int
    version: str
    version_hash: str
    suite: str
    split: str
    protocol: dict[str, Any]
    planned: int
    seconds: float
    repeat: int = 0


def record_evaluation(
    session: Session, run: Facts, scored: Scored, graded: Sequence[Mapping[str, Any]]
) -> Evaluation:
    """Write one evaluation with its samples; the same one is written once."""
    found = _find(session, run, scored)
    if found is not None:
        return found
    scores = item_scores(graded)
    known = [score for score in scores.values() if score is not None]
    estimate = statistics.estimate(known)
    evaluation = Evaluation(
        project_id=run.project_id,
        run=run.owner["run"],
        job=run.owner["job"],
        round=scored.round,
        version=scored.version,
        version_hash=scored.version_hash,
        suite=scored.suite,
        split=scored.split,
        repeat=scored.repeat,
        protocol_hash=content_hash(scored.protocol),
        protocol=scored.protocol,
        planned=scored.planned,
        scored=len(known),
        mean=estimate.mean,
        low=estimate.low if known else None,
        high=estimate.high if known else None,
        conservative=sum(known) / scored.planned if scored.planned else None,
        families=family_means(graded),
        simulated=run.simulated,
        seconds=scored.seconds,
    )
    session.add(evaluation)
    session.flush()
    assert evaluation.id is not None
    session.add_all(_sample(run, evaluation.id, one) for one in graded)
    return evaluation


def item_scores(graded: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """One value a task: the mean over its attempts, None when any attempt has no verdict."""
    attempts: dict[str, list[float | None]] = defaultdict(list)
    for one in graded:
        attempts[one["task"]].append(one["score"])
    return {task: _mean(scores) for task, scores in attempts.items()}


def _mean(scores: list[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return sum(known) / len(scores) if len(known) == len(scores) else None


def family_means(
    graded: Sequence[Mapping[str, Any]], by: str = "family"
) -> dict[str, dict[str, Any]]:
    """Mean and n by family (or by stratum), over samples that have a verdict."""
    groups: dict[str, list[float]] = defaultdict(list)
    for one in graded:
        if one["score"] is not None:
            groups[one[by]].append(one["score"])
    return {
        name: {"mean": sum(values) / len(values), "n": len(values)}
        for name, values in sorted(groups.items())
    }


def stored_scores(
    session: Session, run: str, version_hash: str, protocol_hash: str
) -> dict[str, float | None] | None:
    """Scores of an earlier evaluation of the same version under the same protocol, if any."""
    query = select(Evaluation).where(
        Evaluation.run == run,
        Evaluation.version_hash == version_hash,
        Evaluation.protocol_hash == protocol_hash,
    )
    found = session.exec(query.order_by(col(Evaluation.id))).first()
    return None if found is None else scores_of(session, found)


def scores_of(session: Session, evaluation: Evaluation) -> dict[str, float | None]:
    """One value a task of a recorded evaluation."""
    samples = session.exec(select(Sample).where(Sample.evaluation == evaluation.id))
    return item_scores([sample.model_dump() for sample in samples])


def _find(session: Session, run: Facts, scored: Scored) -> Evaluation | None:
    return session.exec(
        select(Evaluation).where(
            Evaluation.run == run.owner["run"],
            Evaluation.job == run.owner["job"],
            Evaluation.round == scored.round,
            Evaluation.version == scored.version,
            Evaluation.suite == scored.suite,
            Evaluation.split == scored.split,
            Evaluation.repeat == scored.repeat,
        )
    ).first()


def _sample(run: Facts, evaluation: int, one: Mapping[str, Any]) -> Sample:
    owner = run.owner["run"]
    return Sample(evaluation=evaluation, project_id=run.project_id, run=owner, **one)
