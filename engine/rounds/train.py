"""Train: the admitted rows into a LoRA adapter, from the base or from the best so far."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from data.tables import Job, Round, Step, TrainPoint
from engine.facts import RunFacts, Tools, derived_seed
from engine.rounds.admit import rows_file
from engine.rounds.plan import lora_settings
from engine.types import LoraSettings, ModelRef, TrainJob, TrainProgress, as_dict
from engine.versions import (
    BASE,
    best_version,
    candidate_name,
    describe,
    find_version,
    model_of,
    record_checkpoint,
    record_version,
)

NAME = "train"
USES_DEVICE = True


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """Where training starts and what it trains on; a dry run trains nothing."""
    plan = past["plan"]["plan"]
    from_best = plan["settings"]["start"] == "best" or run.dry
    start = best_version(session, run.id) if from_best else find_version(session, run.id, BASE)
    assert start is not None
    return {
        "start": describe(start),
        "rows": past["admit"]["trained"],
        "round": round_,
        "trains": not run.dry,
        "lora": as_dict(lora_settings(run.config, plan)),
    }


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Train in the worker, resuming from its newest complete checkpoint."""
    model = model_of(tools, work["start"])
    if not work["trains"]:
        return {"model": as_dict(model), "training": None}
    job = TrainJob(
        model=model,
        rows_file=str(rows_file(tools.folder, work["round"])),
        out_dir=str(tools.home.checkpoints),
        state_dir=str(tools.folder / f"train-{work['round']}"),
        settings=LoraSettings(**work["lora"]),
        seed=derived_seed(run.secret, f"train|{work['round']}"),
    )
    done = tools.student.train(job, lambda point: show(tools, point), tools.stop)
    trained = model_of(tools, {"base": model.base, "adapter": done.adapter_hash})
    return {
        "model": as_dict(trained),
        "training": as_dict(done) | {"settings": as_dict(job.settings), "seed": job.seed},
        "size": folder_size(Path(done.adapter_dir)),
    }


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write the checkpoint and the candidate."""
    name = candidate_name(round_)
    model = ModelRef(**result["model"])
    training = result["training"]
    if training is not None:
        job = _job_of(session, run, round_)
        record_checkpoint(session, run, model, training, result["size"], job=job, round_=round_)
    record_version(session, run, name, model, round_=round_, trained_rows=training and work["rows"])
    query = select(Round).where(Round.run == run.id, Round.number == round_)
    row = session.exec(query).one()
    row.candidate, row.rows = name, training and work["rows"]
    session.add(row)
    if training is None:
        return {"candidate": name, "training": None, "text": "dry run, nothing trained"}
    text = f"{training['steps']} steps, loss {training['loss_first']:.2f} to"
    return {
        "candidate": name,
        "training": training,
        "text": f"{text} {training['loss_last']:.2f}",
    }


def _job_of(session: Session, run: RunFacts, round_: int) -> str | None:
    query = select(Job.id).where(Job.run == run.id, Job.round == round_)
    return session.exec(query.order_by(col(Job.created_at))).first()


def _add_point(s: Session, run: str, round_: int, point: TrainProgress, moment: datetime) -> None:
    """Its `seconds` are those since the first attempt began, so that a log has each at its time."""
    query = select(Step.started_at).where(Step.run == run, Step.round == round_, Step.step == NAME)
    began = s.exec(query.order_by(col(Step.attempt))).first()
    passed = moment - datetime.fromisoformat(began) if began is not None else timedelta()
    seconds = max(0.0, passed.total_seconds())
    s.merge(TrainPoint(run=run, round=round_, step=point.step, loss=point.loss, seconds=seconds))


def show(tools: Tools, point: TrainProgress) -> None:
    """One training report into the live view and the loss curve."""
    tools.progress(point.step, point.steps, "training steps")
    moment = datetime.now(UTC)
    tools.store.post(lambda s: _add_point(s, tools.run, tools.round, point, moment))
    if point.note is not None:
        tools.event("message", point.note, role="student", tool="train")
    if point.checkpoint_step is not None:
        tools.event(
            "message",
            f"step {point.step} of {point.steps}, loss {point.loss:.3f}, checkpoint saved",
            role="student",
            tool="train",
        )


def folder_size(folder: Path) -> int:
    """Bytes of everything in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
