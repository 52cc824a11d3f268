"""Evaluate, by hand: base and adapter on the same tasks, compared in pairs as at a gate."""

from typing import Any

from sqlmodel import Session

from data.tables import Evaluation, Job
from engine import statistics
from engine.answers import measure
from engine.evaluations import Scored, item_scores, record_evaluation
from engine.facts import JobFacts, Tools, derived_seed
from engine.hand_suite import suite_of
from engine.identity import protocol, version_hash
from engine.types import Harness, ModelRef, as_dict
from engine.versions import BASE, model_of
from engine.words import gain, score

NAME = "evaluate"
USES_DEVICE = True


def prepare(session: Session, job: JobFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """The two versions that meet."""
    model = past["train"]["model"]
    base = {"base": model["base"], "base_revision": model["revision"], "adapter": None}
    adapter = base | {"name": job.id, "adapter": model["adapter_hash"]}
    return {"versions": [base | {"name": BASE}, adapter]}


def execute(work: dict[str, Any], job: JobFacts, tools: Tools) -> dict[str, Any]:
    """Answer the suite's tasks with both."""
    suite = suite_of(job, tools)
    assert suite is not None, "only a job that names a suite is evaluated"
    seed = derived_seed(job.secret, "evaluate")
    tools.event("message", f"base and adapter answer {len(suite.tasks)} tasks of {suite.name}")
    measured = []
    for version in work["versions"]:
        model = model_of(tools, version)
        found = measure(
            tools,
            model,
            suite.tasks,
            suite.harness,
            suite.verifier,
            label=f"{suite.name} answers of {_shown(version)}",
            seed=seed,
        )
        measured.append(found | {"model": as_dict(model)})
    ids = [task.id for task in suite.tasks]
    engine, locked_up = measured[0]["engine"], measured[0]["isolation"]
    return {
        "measured": measured,
        "suite": suite.name,
        "split": suite.split,
        "planned": len(ids),
        "met": suite.met,
        "harness": as_dict(suite.harness),
        "protocol": protocol(ids, suite.verifier, suite.harness, engine, seed, locked_up),
    }


def record(
    session: Session, job: JobFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write both evaluations, and the paired difference into the job's figures."""
    rows, scores = [], []
    for version, found in zip(work["versions"], result["measured"], strict=True):
        scored = Scored(
            round=round_,
            version=version["name"],
            version_hash=version_hash(ModelRef(**found["model"]), Harness(**result["harness"])),
            suite=result["suite"],
            split=result["split"],
            protocol=result["protocol"],
            planned=result["planned"],
            seconds=found["seconds"],
        )
        rows.append(record_evaluation(session, job, scored, found["graded"]))
        scores.append(item_scores(found["graded"]))
    base, adapter = rows
    paired = as_dict(statistics.compare(*scores))
    row = session.get_one(Job, job.id)
    told = {"suite": result["suite"], "split": result["split"], "paired": paired}
    told |= {"base": _figures(base), "adapter": _figures(adapter), "met_in_rows": result["met"]}
    row.result = row.result | {"evaluation": told}
    session.add(row)
    means = f"{score(base.mean)} to {score(adapter.mean)}"
    left = f"; {result['met']} tasks left out, which the rows ask" if result["met"] else ""
    return {"text": f"{result['suite']} {means}, {gain(paired)}, n {paired['n']}{left}"}


def _figures(row: Evaluation) -> dict[str, Any]:
    """A version's own figures, over all that it has a score for."""
    return {"mean": row.mean, "low": row.low, "high": row.high, "scored": row.scored}


def _shown(version: dict[str, Any]) -> str:
    return BASE if version["adapter"] is None else "the adapter"
