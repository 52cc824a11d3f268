"""Adapters that were trained elsewhere, as rows: a checkpoint, its version, a job that brought it."""

import re
from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, col, select

from app.caller import Caller
from app.errors import Conflict, InvalidRequest
from data.files import read_manifest
from data.home import Home
from data.tables import Checkpoint, Harness, Job, Version, now

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEPT = ("rank", "alpha", "modules", "claims")  # facts of an adapter that stay with its row


def check_name(session: Session, home: Home, name: str) -> None:
    """Refuse a name that is no name, or that something else answers to."""
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            f"--name: {name!r} is no name for an adapter: give up to 64 letters, digits, '.', '-', '_'"
        )
    if session.get(Job, name) is not None or (home.models / name).exists():
        raise Conflict(f"--name: {name} is a job or a base model here: give another")
    query = select(Checkpoint.id).where(
        Checkpoint.name == name, col(Checkpoint.deleted_at).is_(None)
    )
    taken = session.exec(query).first()
    if taken is not None:
        raise Conflict(f"--name: {name} is checkpoint {taken} already: give another")


def record(
    session: Session, caller: Caller, home: Home, name: str | None, taken: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the rows of an adapter whose folder is in place; what was there already is told.

    `taken` are the facts that the engine found out about it.
    """
    caller.need("deploy")
    _check_folder(home, taken)
    row = session.get(Checkpoint, taken["id"])
    if row is not None and row.deleted_at is None:
        return told(session, row) | {"known": True}
    name = name or f"adapter-{taken['id'][:8]}"
    check_name(session, home, name)
    job = _job(session, caller, name, taken)
    row = _checkpoint(session, caller, row, job, name, taken)
    session.flush()
    _version(session, caller, name, taken)
    return told(session, row) | {"known": False}


def told(session: Session, row: Checkpoint) -> dict[str, Any]:
    """An adapter by what it can be called."""
    query = select(Version).where(Version.adapter == row.id).order_by(col(Version.id).desc())
    version = session.exec(query).first()
    run = version.run if version is not None else None
    name = row.name or (version.name if version is not None else row.id)
    return {
        "id": row.id,
        "name": f"{run}/{name}" if run else name,
        "reference": f"envloop://{row.job}/{row.id}",
        "base_model": row.base_model,
    }


def _check_folder(home: Home, taken: Mapping[str, Any]) -> None:
    try:
        manifest = read_manifest(home.checkpoints / taken["id"])
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"the adapter was not taken whole: {error}; import it again") from None
    if manifest["content"][: len(taken["id"])] != taken["id"]:
        raise InvalidRequest(f"{taken['id']} is not what its folder holds; import it again")


def _job(session: Session, caller: Caller, name: str, taken: Mapping[str, Any]) -> Job:
    """The job that stands for the import; a checkpoint that comes back has it anew."""
    job_id = f"import-{taken['id']}"
    row = session.get(Job, job_id) or Job(id=job_id, project_id=caller.project_id, type="train")
    row.status, row.reason, row.finished_at = "completed", None, now()
    row.created_at = row.updated_at = row.finished_at
    row.labels = {"source": "import", "agent": "import", "imported": name}
    row.spec = {"base_model": taken["base"], "name": name, "imported": True, "actor": caller.actor}
    row.result = {"checkpoint": taken["id"]}
    session.add(row)
    return row


def _checkpoint(
    session: Session,
    caller: Caller,
    row: Checkpoint | None,
    job: Job,
    name: str,
    taken: Mapping[str, Any],
) -> Checkpoint:
    facts = {one: taken[one] for one in KEPT}
    settings = {"rank": taken["rank"], "alpha": taken["alpha"], "target_modules": taken["modules"]}
    if row is not None and not row.training.get("imported"):  # trained here, then deleted
        row.job, row.name, row.deleted_at = job.id, name, None
        session.add(row)
        return row
    made = Checkpoint(
        id=taken["id"],
        project_id=caller.project_id,
        job=job.id,
        base_model=taken["base"],
        base_revision=taken["base_revision"],
        size_bytes=taken["size"],
        training={"imported": facts, "settings": settings},
        name=name,
    )
    return session.merge(made)  # in place of an import that was deleted


def _version(session: Session, caller: Caller, name: str, taken: Mapping[str, Any]) -> None:
    """The version, so that it is listed and deployed as every other one.

    It takes the place of an import's that was deleted, whose name and date are over.
    """
    brought = col(Version.run).is_(None) & col(Version.name).not_in(select(Job.id))
    known = session.exec(select(Version.id).where(brought, Version.adapter == taken["id"])).first()
    harness = taken["harness"]
    if session.get(Harness, harness["id"]) is None:
        session.add(Harness(id=harness["id"], project_id=caller.project_id, spec=harness["spec"]))
        session.flush()
    session.merge(
        Version(
            id=known,
            project_id=caller.project_id,
            name=name,
            role="candidate",
            base_model=taken["base"],
            base_revision=taken["base_revision"],
            adapter=taken["id"],
            harness=harness["id"],
            version_hash=taken["version_hash"],
        )
    )
