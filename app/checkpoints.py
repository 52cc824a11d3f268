"""Checkpoints as people list them: what a job trained, with its files."""

from typing import Any

from sqlalchemy import and_, false
from sqlmodel import Session, col, or_, select

from app import job_shapes as shapes
from app import paging
from app.caller import Caller
from data.files import read_manifest
from data.home import Home
from data.tables import Checkpoint, Job, Version


def list_checkpoints(
    session: Session,
    caller: Caller,
    home: Home,
    *,
    job: str | None,
    run: str | None,
    limit: int,
    cursor: str | None,
) -> shapes.CheckpointPage:
    """A page of what was trained in the project and is whole on disk, newest first.

    Equal trainings give the same checkpoint, so that one may be listed for several jobs.
    """
    query: Any = (
        select(Version)
        .join(Checkpoint, col(Checkpoint.id) == col(Version.adapter))
        .where(
            Version.project_id == caller.project_id,
            Version.role == "candidate",
            col(Checkpoint.deleted_at).is_(None),
        )
    )
    if run is not None:
        query = query.where(Version.run == run)
    if job is not None:
        of_job = select(Job).where(Job.id == job, Job.project_id == caller.project_id)
        query = query.where(*_made_by(session.exec(of_job).first()))
    rows, next_cursor = paging.by_number(session, query, Version, limit, cursor)
    found = [item_of(session, home, version) for version in rows]
    items = [item for item in found if item is not None]
    return shapes.CheckpointPage(items=items, next_cursor=next_cursor)


def _made_by(job: Job | None) -> tuple[Any, ...]:
    """What tells the versions of a job: its round, or its own name where no loop started it."""
    if job is None:
        return (false(),)
    if job.run is not None:
        return Version.run == job.run, Version.round == job.round
    brought = and_(
        col(Version.adapter).in_(select(Checkpoint.id).where(Checkpoint.job == job.id)),
        col(Version.name).not_in(select(Job.id)),  # another job's, which trained the same
    )
    return col(Version.run).is_(None), or_(Version.name == job.id, brought)


def item_of(session: Session, home: Home, version: Version) -> shapes.CheckpointItem | None:
    """A version's checkpoint; None where its folder is not whole."""
    assert version.adapter is not None
    job = job_of(session, version)
    files = _files(home, version.adapter)
    if job is None or files is None:
        return None
    return shapes.CheckpointItem(
        checkpoint_id=version.adapter,
        checkpoint_type="training",
        base_model=version.base_model,
        job_id=job.id,
        train_job_id=job.id,
        training_run_id=version.run or job.id,
        tinker_checkpoint_id=f"weights/{version.name}",
        tinker_path=f"tinker://{version.run or job.id}/weights/{version.name}",
        created_at=version.created_at,
        files=files,
        simulated=version.simulated or None,
    )


def job_of(session: Session, version: Version) -> Job | None:
    """The job that trained a version, or brought it here."""
    if version.run is None:
        trained = session.get(Job, version.name)
        checkpoint = session.get(Checkpoint, version.adapter or "")
        brought = checkpoint.job if checkpoint is not None else None
        return trained or (session.get(Job, brought) if brought else None)
    query = select(Job).where(Job.run == version.run, Job.round == version.round)
    return session.exec(query.order_by(col(Job.created_at))).first()


def _files(home: Home, checkpoint: str) -> list[shapes.CheckpointFile] | None:
    """Files by the manifest, when all are there in their full size."""
    folder = home.checkpoints / checkpoint
    try:
        listed = read_manifest(folder)["files"]
        whole = all((folder / name).stat().st_size == one["bytes"] for name, one in listed.items())
    except (OSError, ValueError):
        return None
    if not whole:
        return None
    return [
        shapes.CheckpointFile(name=name, size_bytes=one["bytes"], sha256=one["sha256"])
        for name, one in sorted(listed.items())
    ]
