"""The administration commands behind `run.py checkpoint`; results are plain JSON."""

from collections.abc import Callable
from typing import Any

from sqlmodel import Session

from app import checkpoint_import, checkpoint_removal
from app.administration import LOCAL_OWNER
from app.checkpoint_card import facts_of
from app.checkpoints import list_checkpoints
from app.downloads import find_checkpoint
from data.home import Home
from data.store import Store
from data.tables import Checkpoint

PAGE = 100


def commands(store: Store, home: Home) -> dict[str, Callable[..., Any]]:
    """Every command by name."""

    def listed() -> list[dict[str, Any]]:
        with store.read() as session:
            return _all(session, home)

    def about(reference: str) -> dict[str, Any]:
        with store.read() as session:
            version, item = find_checkpoint(session, LOCAL_OWNER, home, reference)
            return facts_of(session, version, item)

    def check_name(name: str) -> None:
        with store.read() as session:
            checkpoint_import.check_name(session, home, name)

    def record(name: str | None, taken: dict[str, Any]) -> dict[str, Any]:
        return store.write(lambda s: checkpoint_import.record(s, LOCAL_OWNER, home, name, taken))

    def delete(reference: str, dry_run: bool) -> dict[str, Any]:
        with store.read() as session:
            _, item = find_checkpoint(session, LOCAL_OWNER, home, reference)
        checkpoint, for_all = item.checkpoint_id, reference == item.checkpoint_id
        done = checkpoint_removal.delete(store, LOCAL_OWNER, home, checkpoint, dry_run, for_all)
        return done.model_dump() | {"id": checkpoint}

    return {
        "checkpoint.list": listed,
        "checkpoint.about": about,
        "checkpoint.check_name": check_name,
        "checkpoint.record": record,
        "checkpoint.delete": delete,
    }


def _all(session: Session, home: Home) -> list[dict[str, Any]]:
    """Every checkpoint of the project, newest first, in the words of a table."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = list_checkpoints(
            session, LOCAL_OWNER, home, job=None, run=None, limit=PAGE, cursor=cursor
        )
        rows += [_row(session, item) for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return rows


def _row(session: Session, item: Any) -> dict[str, Any]:
    run, name = item.training_run_id, item.tinker_path.rpartition("/")[2]
    row = session.get_one(Checkpoint, item.checkpoint_id)
    return {
        "name": name if run == item.job_id else f"{run}/{name}",
        "id": item.checkpoint_id,
        "base_model": item.base_model,
        "bytes": sum(file.size_bytes for file in item.files),
        "made": item.created_at,
        "from": "imported" if row.training.get("imported") else item.job_id,
        "simulated": row.simulated,
    }
