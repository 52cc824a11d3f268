"""Prepare: freeze what a run is measured by, and measure the baseline on dev, twice."""

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session

from data.tables import Run
from engine import statistics
from engine.answers import measure
from engine.draws import draw_fresh, plain_draws, read_task, record_draws, record_tasks, spread
from engine.evaluations import Scored, item_scores, record_evaluation
from engine.facts import RunFacts, Tools, derived_seed
from engine.identity import protocol
from engine.lint import check_training
from engine.splits import check_room
from engine.types import ModelRef, as_dict
from engine.versions import BASE, record_version
from engine.words import score

NAME = "prepare"
USES_DEVICE = True
REPEATS = 2


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """Draw the dev set; refuse settings that need more tasks than a family has."""
    limits = run.config.limits
    counts = spread(limits.dev_n, run.config.families)
    for family in run.config.families:
        check_room("dev", family, counts[family.id])
        check_room("diag", family, limits.diag_per_family)
        check_room("blind", family, limits.blind_n // len(counts))
    drawn, following = [], {}
    for family in run.config.families:
        found, following[family.id] = draw_fresh(session, run, "dev", family, counts[family.id])
        drawn += found
    return {"dev": plain_draws(drawn), "following": following}


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Answer the dev set with the untouched base model, twice: the second time shows the noise."""
    model = tools.model(run.base_model)
    if not run.dry:
        check_training(run.config.lora, model, f"preset {run.config.preset}")
    tasks = [read_task(one["task"]) for one in work["dev"]]
    measured = [
        measure(
            tools,
            model,
            tasks,
            run.config.harness,
            run.domain.verifier,
            label=f"baseline answers on dev, time {repeat + 1} of {REPEATS}",
            seed=dev_seed(run, repeat),
        )
        for repeat in range(REPEATS)
    ]
    return {"measured": measured, "model": as_dict(model)}


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write the dev set, the base version and its two evaluations."""
    record_tasks(session, run, "dev", work["dev"], round_)
    record_draws(session, run.id, "dev", work["following"])
    version = record_version(session, run, BASE, ModelRef(**result["model"]))
    ids = [read_task(one["task"]).id for one in work["dev"]]
    evaluations = []
    for repeat, found in enumerate(result["measured"]):
        scored = Scored(
            round=round_,
            version=BASE,
            version_hash=version.version_hash,
            suite=run.domain.name,
            split="dev",
            protocol=run_protocol(run, found, ids, dev_seed(run, repeat)),
            planned=len(work["dev"]),
            seconds=found["seconds"],
            repeat=repeat,
        )
        evaluations.append(record_evaluation(session, run, scored, found["graded"]))
    row = session.get_one(Run, run.id)
    row.best_version = None if run.dry else BASE
    session.add(row)
    first, second = (item_scores(found["graded"]) for found in result["measured"])
    noise = statistics.noise_floor(first, second)
    baseline = evaluations[0]
    text = f"{score(baseline.mean)} on dev, n {baseline.scored}, noise {score(noise)}"
    return {"noise": noise, "mean": baseline.mean, "text": text}


def run_protocol(
    run: RunFacts, result: Mapping[str, Any], task_ids: list[str], seed: int
) -> dict[str, Any]:
    """How the run's own tasks are measured, for base and candidates alike.

    `result` names the engine that answered and how code was isolated.
    """
    engine, isolation = result["engine"], result.get("isolation")
    return protocol(task_ids, run.domain.verifier, run.config.harness, engine, seed, isolation)


def dev_seed(run: RunFacts, repeat: int = 0) -> int:
    """The sampling seed on dev; the second measurement of the baseline has another one."""
    return derived_seed(run.secret, f"dev|{repeat}")
