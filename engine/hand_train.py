"""Train, by hand: somebody's rows into a LoRA adapter of a base model, without a loop."""

import hashlib
from dataclasses import fields
from pathlib import Path
from typing import Any

from sqlmodel import Session

from data.job_places import ROWS
from data.tables import Job
from engine.errors import StepFailed
from engine.facts import JobFacts, Tools, derived_seed
from engine.hand_suite import suite_of
from engine.lint import check_training
from engine.rounds.train import folder_size, show
from engine.types import Harness, LoraSettings, ModelRef, TrainJob, as_dict
from engine.versions import model_of, record_checkpoint, write_version

NAME = "train"
USES_DEVICE = True
STATE = "train"  # the folder, beside the rows, that a training resumes from


def prepare(session: Session, job: JobFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """What the job asks for is all there is to know."""
    return {"lora": job.spec["lora"], "seed": job.spec["seed"], "rows": job.spec["rows"]}


def execute(work: dict[str, Any], job: JobFacts, tools: Tools) -> dict[str, Any]:
    """Train in the worker, resuming from its newest complete checkpoint.

    What the evaluation needs is looked for first, so that no training is wasted.
    """
    rows_file = tools.folder / ROWS
    _check_rows(rows_file, job.spec["rows_sha256"])
    suite = suite_of(job, tools)
    model = tools.model(job.base_model)
    seed = derived_seed(job.secret, "train") if work["seed"] is None else work["seed"]
    training = TrainJob(
        model=model,
        rows_file=str(rows_file),
        out_dir=str(tools.home.checkpoints),
        state_dir=str(tools.folder / STATE),
        settings=_settings(work["lora"]),
        seed=seed,
    )
    check_training(training.settings, model, "lora")
    done = tools.student.train(training, lambda point: show(tools, point), tools.stop)
    trained = model_of(tools, {"base": model.base, "adapter": done.adapter_hash})
    harness = suite.harness if suite is not None else Harness(system="", max_tokens=256)
    return {
        "model": as_dict(trained),
        "harness": as_dict(harness),
        "training": as_dict(done) | {"settings": as_dict(training.settings), "seed": seed},
        "size": folder_size(Path(done.adapter_dir)),
    }


def record(
    session: Session, job: JobFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write the checkpoint, the version that it makes, and the job's figures."""
    model, training = ModelRef(**result["model"]), result["training"]
    record_checkpoint(session, job, model, training, result["size"], job=job.id)
    harness, rows = Harness(**result["harness"]), training["rows_used"]
    write_version(session, job, job.id, model, harness, trained_rows=rows)
    row = session.get_one(Job, job.id)
    row.result = row.result | {"checkpoint": model.adapter_hash, "training": training}
    session.add(row)
    return {"model": result["model"], "text": _text(work["rows"], training)}


def _settings(chosen: dict[str, Any]) -> LoraSettings:
    known = {one.name for one in fields(LoraSettings)}
    unknown = sorted(set(chosen) - known)
    if unknown:
        raise StepFailed(f"{unknown[0]} is no setting of a training here: submit the job again")
    return LoraSettings(**chosen)


def _check_rows(file: Path, sha256: str) -> None:
    """StepFailed unless the rows are there as they were submitted."""
    if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
        raise StepFailed(f"the rows in {file} are not there as they were sent: submit them again")


def _text(rows: int, training: dict[str, Any]) -> str:
    loss = f"loss {training['loss_first']:.2f} to {training['loss_last']:.2f}"
    steps, used = training["steps"], training["rows_used"]
    text = f"{_several(steps, 'step')} on {_several(used, 'row')}, {loss}"
    left = rows - used
    longest = training["settings"]["max_length"]
    if left:
        text += f"; {_several(left, 'row')} left out, longer than {longest} tokens"
    return text


def _several(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
