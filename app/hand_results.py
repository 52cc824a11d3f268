"""How a training without a loop went, as its job tells it: figures, when it began."""

from typing import Any

from sqlmodel import Session, col, select

from data.job_places import log_name
from data.tables import Job, Step

SIMULATED = "sim/"
TRAINING = ("steps", "rows_used", "loss_first", "loss_last", "seconds", "target_tokens")
OF_A_VERSION = ("mean", "low", "high")
PAIRED = ("n", "difference", "p_value", "fixed", "regressed", "coverage", "conservative")


def metrics_of(job: Job) -> dict[str, float]:
    """Figures of the training; then means of base and adapter and their difference with intervals.

    `n` counts the tasks that both have a score for, `met_in_rows` those that were left out since the
    rows ask them; the intervals have 95 %.
    """
    training: dict[str, Any] = job.result.get("training", {})
    found = {name: training.get(name) for name in TRAINING}
    evaluation = job.result.get("evaluation")
    if evaluation is not None:
        for version in ("base", "adapter"):
            found |= {f"{version}_{name}": evaluation[version][name] for name in OF_A_VERSION}
        paired = evaluation["paired"]
        found |= {name: paired[name] for name in PAIRED}
        found["met_in_rows"] = evaluation.get("met_in_rows")
        found |= {f"difference_{end}": paired[end] for end in ("low", "high")}
    return {name: value for name, value in found.items() if value is not None}


def begun(session: Session, job: Job) -> str | None:
    """When the engine began to work on it."""
    query = select(Step.started_at).where(Step.run == log_name(job.id))
    return session.exec(query.order_by(col(Step.id))).first()


def is_simulated(job: Job) -> bool:
    """Whether no real model was trained."""
    return str(job.spec.get("base_model", "")).startswith(SIMULATED)
