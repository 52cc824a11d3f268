"""Deletes what was trained, at a person's word: what that frees, why it is refused, how far it is."""

from collections.abc import Collection

from sqlmodel import Session, select

from app import job_shapes as shapes
from app.caller import Caller
from app.errors import CheckpointNotFound, InUse, NotFound
from data.cleaning import CheckpointInUse, delete_checkpoint
from data.home import Home
from data.retention import why_in_use
from data.sizes import size_of
from data.store import Reader
from data.tables import Checkpoint, Version

OPERATION = "delete-"  # an operation's id is this and the checkpoint's


def delete(
    store: Reader,
    caller: Caller,
    home: Home,
    checkpoint: str,
    protected: Collection[str],
    dry: bool,
) -> shapes.Deletion:
    """Delete what was trained, or tell what that would free; InUse when something needs it.

    Versions, evaluations and evidence stay; the weights are gone for good.
    """
    with store.read() as session:
        _find(session, caller, checkpoint)
        reason = _why_kept(session, caller, checkpoint, protected)
    if reason is not None:
        raise InUse(f"checkpoint {checkpoint} stays: {reason}")
    freed = size_of(home.checkpoints / checkpoint)
    if not dry:
        try:
            delete_checkpoint(store, home, checkpoint, protected)
        except CheckpointInUse as used:
            raise InUse(f"checkpoint {checkpoint} stays: {used}") from None
    status = "RUNNING" if dry else _state(home, checkpoint)
    return _deletion(caller, checkpoint, status).model_copy(
        update={"dry_run": dry, "freed_bytes": freed}
    )


def deletion(session: Session, caller: Caller, home: Home, operation: str) -> shapes.Deletion:
    """How far the removal of a checkpoint is."""
    checkpoint = operation.removeprefix(OPERATION)
    row = session.get(Checkpoint, checkpoint) if operation.startswith(OPERATION) else None
    if row is None or row.deleted_at is None or not _is_ours(session, caller, checkpoint):
        raise NotFound(f"there is no operation {operation} here")
    return _deletion(caller, checkpoint, _state(home, checkpoint))


def _state(home: Home, checkpoint: str) -> str:
    return "RUNNING" if (home.checkpoints / checkpoint).exists() else "SUCCEEDED"


def _deletion(caller: Caller, checkpoint: str, status: str) -> shapes.Deletion:
    return shapes.Deletion(
        operation_id=OPERATION + checkpoint,
        status=status,
        project_id=caller.project_id,
        resources=[{"kind": "checkpoint", "id": checkpoint}],
        errors=[],
    )


def _find(session: Session, caller: Caller, checkpoint: str) -> None:
    row = session.get(Checkpoint, checkpoint)
    if row is None or row.deleted_at is not None or not _is_ours(session, caller, checkpoint):
        raise CheckpointNotFound(f"there is no checkpoint {checkpoint}; see the list of them")


def _is_ours(session: Session, caller: Caller, checkpoint: str) -> bool:
    own = Version.project_id == caller.project_id
    query = select(Version.id).where(Version.adapter == checkpoint, own)
    return session.exec(query).first() is not None


def _why_kept(
    session: Session, caller: Caller, checkpoint: str, protected: Collection[str]
) -> str | None:
    """Equal trainings share a checkpoint, so that another project may have the same."""
    others = Version.project_id != caller.project_id
    query = select(Version.id).where(Version.adapter == checkpoint, others)
    if session.exec(query).first() is not None:
        return "another project has the same"
    return why_in_use(session, checkpoint, protected)
