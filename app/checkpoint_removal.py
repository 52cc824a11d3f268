"""Deletes what was trained, at a person's word: what that frees, why it is refused, how far it is."""

from collections.abc import Collection

from sqlmodel import Session, col, select

from app import job_shapes as shapes
from app.caller import Caller
from app.downloads import public_name
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
    dry: bool,
    for_all: bool = True,
) -> shapes.Deletion:
    """Delete what was trained, or tell what that would free; InUse when something needs it.

    Versions, evaluations and evidence stay; the weights are gone for good, for every run, job and
    import that has the same. Without `for_all` it is refused when there is more than one of them.
    """
    with store.read() as session:
        _find(session, caller, checkpoint)
        sharing = _sharing(session, caller, checkpoint)
        reason = _why_kept(session, caller, checkpoint)
    if reason is None and not for_all and len(set(sharing.values())) > 1:
        reason = f"{' and '.join(sharing)} have the same files; its id deletes it for all of them"
    if reason is not None:
        raise InUse(f"checkpoint {checkpoint} stays: {reason}")
    freed = size_of(home.checkpoints / checkpoint)
    if not dry:
        try:
            delete_checkpoint(store, home, checkpoint)
        except CheckpointInUse as used:
            raise InUse(f"checkpoint {checkpoint} stays: {used}") from None
    status = "RUNNING" if dry else _state(home, checkpoint)
    return _deletion(caller, checkpoint, status, sharing).model_copy(
        update={"dry_run": dry, "freed_bytes": freed}
    )


def deletion(session: Session, caller: Caller, home: Home, operation: str) -> shapes.Deletion:
    """How far the removal of a checkpoint is."""
    checkpoint = operation.removeprefix(OPERATION)
    row = session.get(Checkpoint, checkpoint) if operation.startswith(OPERATION) else None
    if row is None or row.deleted_at is None or not _is_ours(session, caller, checkpoint):
        raise NotFound(f"there is no operation {operation} here")
    sharing = _sharing(session, caller, checkpoint)
    return _deletion(caller, checkpoint, _state(home, checkpoint), sharing)


def _state(home: Home, checkpoint: str) -> str:
    return "RUNNING" if (home.checkpoints / checkpoint).exists() else "SUCCEEDED"


def _sharing(session: Session, caller: Caller, checkpoint: str) -> dict[str, str]:
    """The versions of the project that have these files, each with its run, job or import."""
    own = Version.project_id == caller.project_id
    query = select(Version).where(Version.adapter == checkpoint, own)
    versions = session.exec(query.order_by(col(Version.id)))
    return {public_name(version): version.run or version.name for version in versions}


def _deletion(
    caller: Caller, checkpoint: str, status: str, names: Collection[str]
) -> shapes.Deletion:
    return shapes.Deletion(
        operation_id=OPERATION + checkpoint,
        status=status,
        project_id=caller.project_id,
        resources=[{"kind": "checkpoint", "id": checkpoint}],
        errors=[],
        names=list(names),
    )


def _find(session: Session, caller: Caller, checkpoint: str) -> None:
    row = session.get(Checkpoint, checkpoint)
    if row is None or row.deleted_at is not None or not _is_ours(session, caller, checkpoint):
        raise CheckpointNotFound(f"there is no checkpoint {checkpoint}; see the list of them")


def _is_ours(session: Session, caller: Caller, checkpoint: str) -> bool:
    own = Version.project_id == caller.project_id
    query = select(Version.id).where(Version.adapter == checkpoint, own)
    return session.exec(query).first() is not None


def _why_kept(session: Session, caller: Caller, checkpoint: str) -> str | None:
    """Equal trainings share a checkpoint, so that another project may have the same."""
    others = Version.project_id != caller.project_id
    query = select(Version.id).where(Version.adapter == checkpoint, others)
    if session.exec(query).first() is not None:
        return "another project has the same"
    return why_in_use(session, checkpoint)
