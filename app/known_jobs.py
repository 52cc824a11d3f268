"""The job that a caller means: by its id, or by a request that came before."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, select

from app.caller import Caller
from app.errors import JobNotFound, RequestConflict
from data.tables import Job


def find_job(session: Session, caller: Caller, job: str) -> Job:
    """A job of the caller's project; a foreign one looks exactly like a missing one."""
    row = session.get(Job, job)
    if row is None or row.project_id != caller.project_id:
        raise JobNotFound(f"there is no job {job}; see the list of jobs")
    return row


def known_request(
    session: Session,
    caller: Caller,
    request_id: str | None,
    kind: str,
    digest: str,
    refusal: type[RequestConflict] = RequestConflict,
) -> Job | None:
    """The job that this request made before; the refusal when it said something else."""
    if request_id is None:
        return None
    query = select(Job).where(Job.project_id == caller.project_id, Job.request_id == request_id)
    found = session.exec(query).first()
    if found is not None and (found.type != kind or found.spec.get("request") != digest):
        raise refusal(f"request_id: {request_id} came before with another body, as job {found.id}")
    return found


def digest_of(body: Mapping[str, Any]) -> str:
    """What a request said, as the job that it made keeps it."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
