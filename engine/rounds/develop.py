"""Develop: the candidate against the best so far on the dev split, paired; only a winner goes on."""

from typing import Any

from sqlmodel import Session, col, func, select

from data.tables import Evaluation
from data.tables import Task as TaskRow
from engine import statistics
from engine.answers import measure
from engine.draws import read_task, rebuild
from engine.errors import StepFailed
from engine.evaluations import Scored, item_scores, record_evaluation, scores_of
from engine.facts import RunFacts, Tools
from engine.identity import content_hash
from engine.rounds.prepare import dev_seed, run_protocol
from engine.types import Task, as_dict
from engine.versions import BASE, best_version, describe, find_version, model_of
from engine.words import gain

NAME = "develop"
USES_DEVICE = True


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """The fixed dev set, the candidate, and the scores that the best so far has on it."""
    candidate = find_version(session, run.id, past["train"]["candidate"])
    assert candidate is not None
    best = best_version(session, run.id)
    return {
        "tasks": [as_dict(task) for task in _dev_tasks(session, run)],
        "candidate": describe(candidate),
        "best": best.name,
        "best_scores": scores_of(session, _on_dev(session, run, best.version_hash)),
        "best_protocol": _on_dev(session, run, best.version_hash).protocol_hash,
        "base_scores": scores_of(session, _on_dev(session, run, _base_hash(session, run))),
        "uses": _dev_uses(session, run.id),
    }


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Answer the dev set with the candidate."""
    if work["uses"] >= run.config.limits.dev_use_cap and not run.dry:
        raise StepFailed(f"the dev set was used {work['uses']} times: dev_use_cap is reached")
    return measure(
        tools,
        model_of(tools, work["candidate"]),
        [read_task(task) for task in work["tasks"]],
        run.config.harness,
        run.domain.verifier,
        label="candidate answers on dev",
        seed=dev_seed(run),
    )


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write the evaluation; a candidate that is not proven better here ends the round."""
    ids = [read_task(task).id for task in work["tasks"]]
    measured = run_protocol(run, result, ids, dev_seed(run))
    scored = Scored(
        round=round_,
        version=work["candidate"]["name"],
        version_hash=work["candidate"]["hash"],
        suite=run.domain.name,
        split="dev",
        protocol=measured,
        planned=len(work["tasks"]),
        seconds=result["seconds"],
    )
    evaluation = record_evaluation(session, run, scored, result["graded"])
    scores = item_scores(result["graded"])
    paired = statistics.compare(work["best_scores"], scores)
    against_base = statistics.compare(work["base_scores"], scores)
    summary = {
        "protocol": content_hash(measured),
        "paired": as_dict(paired),
        "against_base": as_dict(against_base),
        "mean": evaluation.mean,
        "text": f"dev {gain(as_dict(paired))}",
    }
    if work["best_protocol"] != summary["protocol"]:
        reason = f"{work['best']} was measured on dev under another protocol; start a new run"
        summary |= {"ends": "inconclusive", "reason": reason}
    elif paired.low <= 0 and not run.dry:
        summary |= _not_a_winner(paired, work["best"])
    return summary


def _not_a_winner(paired: statistics.Paired, best: str) -> dict[str, Any]:
    better = paired.difference is not None and paired.difference > 0
    found = f"{gain(as_dict(paired))}, n {paired.n}"
    return {
        "ends": "inconclusive" if better else "reject",
        "reason": f"not proven better than {best} on dev: {found}",
    }


def _dev_tasks(session: Session, run: RunFacts) -> list[Task]:
    """The dev set, made again from its seeds, so that checkers need not be stored."""
    query = select(TaskRow).where(TaskRow.run == run.id, TaskRow.split == "dev")
    rows = session.exec(query.order_by(col(TaskRow.row))).all()
    return [rebuild(run, "dev", row.family, row.number, row.id) for row in rows]


def _on_dev(session: Session, run: RunFacts, version_hash: str) -> Evaluation:
    """The first evaluation of a version on dev."""
    query = select(Evaluation).where(
        Evaluation.run == run.id,
        Evaluation.split == "dev",
        Evaluation.version_hash == version_hash,
    )
    found = session.exec(query.order_by(col(Evaluation.id))).first()
    assert found is not None, "a version is measured on dev before it can be best"
    return found


def _base_hash(session: Session, run: RunFacts) -> str:
    base = find_version(session, run.id, BASE)
    assert base is not None
    return base.version_hash


def _dev_uses(session: Session, run: str) -> int:
    """How many candidates of this run were measured on dev."""
    query = select(func.count(col(Evaluation.id))).where(
        Evaluation.run == run, Evaluation.split == "dev", Evaluation.round > 0
    )
    return session.exec(query).one()
