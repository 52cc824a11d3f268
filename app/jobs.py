"""Jobs as people list them: their labels, what they trained, how they went, and stopping them."""

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, col, select

from app import endpoints, hand_results, paging
from app import job_shapes as shapes
from app.caller import Caller
from app.control import control
from app.errors import InvalidJobStatus, InvalidJobType, JobOver
from app.job_status import ACTIVE, STATUSES, status_of
from app.known_jobs import find_job
from app.live import progress_of
from app.pending import asked_of_jobs, shown
from app.shapes import Progress
from data.job_places import log_name
from data.tables import Checkpoint, Evaluation, Job, Live, Round, Run, Version, now

TYPES = ("agent", "sandbox", "train", "inference")
FIGURES = ("steps", "rows_used", "loss_first", "loss_last", "seconds", "target_tokens")


def list_jobs(
    session: Session,
    caller: Caller,
    *,
    type: str | None,
    status: str | None,
    limit: int,
    cursor: str | None,
) -> shapes.JobPage:
    """A page of the project's jobs, newest first."""
    if type is not None and type not in TYPES:
        raise InvalidJobType(f"type: {type!r} is not one of {', '.join(TYPES)}")
    if status is not None and status not in STATUSES:
        raise InvalidJobStatus(f"status: {status!r} is not one of {', '.join(STATUSES)}")
    query = select(Job).where(Job.project_id == caller.project_id)
    query = query if type is None else query.where(Job.type == type)
    query = query if status is None else query.where(Job.status == status)
    rows, next_cursor = paging.newest_first(session, query, Job, limit, cursor)
    return shapes.JobPage(items=items(session, rows), next_cursor=next_cursor, observed_at=now())


def job_item(session: Session, caller: Caller, job: str) -> shapes.JobItem:
    """One job as a list item."""
    return items(session, [find_job(session, caller, job)])[0]


def items(session: Session, rows: Sequence[Job]) -> list[shapes.JobItem]:
    """Jobs as list items, with what their rounds trained."""
    ids = {row.run for row in rows if row.run is not None}
    runs = {run.id: run for run in session.exec(select(Run).where(col(Run.id).in_(ids)))}
    query = select(Version).where(col(Version.run).in_(ids), Version.role == "candidate")
    trained = {(version.run, version.round): version for version in session.exec(query)}
    adapters = {version.adapter for version in trained.values() if version.adapter is not None}
    adapters |= {row.result["checkpoint"] for row in rows if row.result.get("checkpoint")}
    found = session.exec(select(Checkpoint).where(col(Checkpoint.id).in_(adapters)))
    checkpoints = {row.id: row for row in found}
    asked = shown(session, list(runs.values()))
    stopping = {run for run, one in asked.items() if one.stop_requested}
    ending = {job for job, said in asked_of_jobs(session, rows).items() if "stop" in said}
    inside = endpoints.inference_of(session, rows)
    return [
        shapes.JobItem(
            job_id=row.id,
            type=row.type,
            status=status_of(row, row.run in stopping or row.id in ending),
            created_at=row.created_at,
            updated_at=row.updated_at,
            finished_at=row.finished_at,
            reason=row.reason,
            name=row.spec.get("name") if row.type == "train" else None,
            training=_training(row, runs.get(row.run or ""), trained, checkpoints),
            inference=inside.get(row.id),
        )
        for row in rows
    ]


def _training(
    row: Job,
    run: Run | None,
    trained: dict[tuple[str | None, int | None], Version],
    checkpoints: dict[str, Checkpoint],
) -> shapes.Training | None:
    if row.type != "train":
        return None
    version = trained.get((row.run, row.round)) if row.run is not None else None
    adapter = version.adapter if version is not None else row.result.get("checkpoint")
    made = checkpoints.get(adapter or "")
    checkpoint = made if made is not None and made.deleted_at is None else None
    labels = {name: str(value) for name, value in row.labels.items() if str(value).strip()}
    if version is not None and checkpoint is not None:
        labels["rsi_checkpoint"] = version.name
    simulated = run.simulated if run is not None else hand_results.is_simulated(row)
    nothing_trained = row.bookkeeping and row.labels.get("rsi_method") == "none"
    return shapes.Training(
        base_model=run.base_model if run is not None else row.spec.get("base_model"),
        model_id=row.id,  # a job trains one model, which has its name
        model_ids=[row.id],
        transitions=[],
        lora_rank=checkpoint.training.get("settings", {}).get("rank") if checkpoint else None,
        checkpoint=_path(row, checkpoint),
        checkpoint_deleted_at=made.deleted_at if made is not None else None,
        bookkeeping=nothing_trained or None,
        simulated=simulated or None,
        tags=labels,
        user_metadata=labels,
    )


def _path(row: Job, checkpoint: Checkpoint | None) -> shapes.CheckpointPath | None:
    if checkpoint is None:
        return None
    return shapes.CheckpointPath(path=f"envloop://{row.id}/{checkpoint.id}")


def job_result(session: Session, caller: Caller, job: str) -> shapes.JobResult:
    """How a job went in figures: its training, and what its candidate scored."""
    row = find_job(session, caller, job)
    metrics = hand_results.metrics_of(row)
    query = select(Version).where(Version.run == row.run, Version.round == row.round)
    version = session.exec(query).first() if row.run is not None else None
    if version is not None:
        checkpoint = session.get(Checkpoint, version.adapter or "")
        figures: dict[str, Any] = checkpoint.training if checkpoint is not None else {}
        metrics = {name: figures[name] for name in FIGURES if figures.get(name) is not None}
        metrics |= _scores(session, version)
    (item,) = items(session, [row])
    simulated = item.training is not None and bool(item.training.simulated)
    return shapes.JobResult(job_id=job, status=item.status, metrics=metrics, simulated=simulated)


def job_progress(session: Session, caller: Caller, job: str) -> Progress | None:
    """How far a training by hand is; a loop's job has the live view of its run instead.

    None while it waits, whose reason says for what.
    """
    row = find_job(session, caller, job)
    if row.run is not None or row.status != "running" or row.reason is not None:
        return None
    return progress_of(session.get(Live, log_name(job)))


def _scores(session: Session, version: Version) -> dict[str, float]:
    """Means by split in the version's own round, each with the number of tasks scored."""
    query = select(Evaluation).where(
        Evaluation.run == version.run,
        Evaluation.version == version.name,
        Evaluation.round == version.round,
        Evaluation.repeat == 0,
    )
    metrics: dict[str, float] = {}
    for one in session.exec(query.order_by(col(Evaluation.id))):
        if one.mean is not None and one.split in ("dev", "blind", "held_out", "guard"):
            metrics |= {f"{one.split}_mean": one.mean, f"{one.split}_n": one.scored}
    return metrics


def job_events(session: Session, caller: Caller, job: str) -> shapes.JobEventPage:
    """When a job entered which state, oldest first."""
    row = find_job(session, caller, job)
    query = select(Round.started_at).where(Round.run == row.run, Round.number == row.round)
    begun = session.exec(query).first() if row.run is not None else None
    begun = begun or hand_results.begun(session, row)
    states = [("queued", row.created_at), ("running", begun)]
    if row.status not in ACTIVE:
        states.append((row.status, row.finished_at))
    told = [
        shapes.JobEvent(resource_id=job, status=status, at=at, source="engine")
        for status, at in states
        if at is not None
    ]
    return shapes.JobEventPage(items=told)


def stop_job(session: Session, caller: Caller, job: str) -> shapes.JobStopped:
    """Ask for a job's end. A loop's job ends with its run, which stops after its round."""
    row = find_job(session, caller, job)
    if row.status not in ACTIVE:
        raise JobOver(f"job {job} is {row.status} already")
    if row.run is not None:
        control(session, caller, row.run, "stop", None, None)
    elif "stop" not in asked_of_jobs(session, [row]).get(job, []):
        endpoints.ask_of(session, caller, row, "stop")
    return shapes.JobStopped(job_id=job, status="cancelling")


def endpoints_now(session: Session, caller: Caller) -> list[shapes.JobItem]:
    """The jobs of all deployed versions, newest first."""
    return items(session, endpoints.active_jobs(session, caller))


def change_endpoint(session: Session, caller: Caller, job: str, action: str) -> shapes.JobItem:
    """Pause, resume or wake an inference job; the answer already shows the effect."""
    row = find_job(session, caller, job)
    endpoints.change_endpoint(session, caller, row, action)
    return items(session, [row])[0]
