"""Trainings that people and agents submit without a loop: taken in, once for each request."""

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from app import job_shapes as shapes
from app.caller import Caller
from app.deployable import is_name
from app.errors import Conflict, InvalidTrainSpec, TrainRequestConflict, Unavailable
from app.known_jobs import digest_of, known_request
from app.start import queue_limit
from app.train_spec import CheckedTraining, check_training, checked_tags, refuse_nulls
from app.trainable import base_models
from data.disk import room
from data.files import write_durable
from data.home import Home
from data.job_places import ROWS, job_folder
from data.tables import Job

KIND = "train"
MOST_TRIALS = 16
LONGEST_NAME = 64
LONGEST_REQUEST = 128  # characters of a request's id
LEAST_FREE = 200_000_000  # bytes that stay free beside the rows
FIELDS = frozenset({"type", "request_id", "spec", "trials", "tags", "name"})
DEFAULT_LABELS = {"rsi_purpose": "train by hand", "rsi_method": "sft"}


def submit_training(
    session: Session,
    caller: Caller,
    home: Home,
    body: Mapping[str, Any],
) -> shapes.JobStarted:
    """Take in a training, or 1 to 16 as `trials`: each is a job of its own, the first is answered.

    The same body again, by its `request_id`, gives the same jobs. Rows go to a file of the home.
    """
    caller.need("training.run")
    request_id = _checked_request(body)
    digest = digest_of(body)
    again = known_request(session, caller, request_id, KIND, digest, TrainRequestConflict)
    if again is not None:
        return _started(session, again)
    trained = checked_trainings(body, base_models(home))
    _check_queue(session, len(trained))
    _check_disk(home, trained)
    jobs = [_job(caller, one) for one in trained]
    first = jobs[0]
    first.request_id = request_id
    first.spec = first.spec | {"request": digest, "trials": [job.id for job in jobs]}
    for job, one in zip(jobs, trained, strict=True):
        write_durable(job_folder(home, job.id) / ROWS, one.rows)
        session.add(job)
    session.flush()
    return _started(session, first)


def _checked_request(body: Mapping[str, Any]) -> str | None:
    unknown = sorted(str(name) for name in set(body) - FIELDS)
    if unknown:
        raise InvalidTrainSpec(f"{unknown[0]}: not a field here; a job has {_fields()}")
    refuse_nulls({name: value for name, value in body.items() if name != "spec"})
    request_id = body.get("request_id")
    if request_id is None:
        return None
    if not is_name(request_id, LONGEST_REQUEST):
        raise InvalidTrainSpec(f"request_id: give a text of 1 to {LONGEST_REQUEST} characters")
    return str(request_id)


def _fields() -> str:
    return ", ".join(sorted(FIELDS))


def checked_trainings(body: Mapping[str, Any], models: set[str]) -> list[CheckedTraining]:
    """The trainings that a body asks for, of base models that there are; InvalidTrainSpec names
    the field that is refused. The tags of the whole request lie below a training's own."""
    spec, trials = body.get("spec"), body.get("trials")
    if (spec is None) == (trials is None):
        raise InvalidTrainSpec("spec, trials: give one of the two")
    tags = checked_tags(body.get("tags"))
    if spec is not None:
        return [_with_name(check_training(spec, models), body.get("name"), tags)]
    if not isinstance(trials, list) or not 1 <= len(trials) <= MOST_TRIALS:
        raise InvalidTrainSpec(f"trials: give a list of 1 to {MOST_TRIALS}")
    return [_trial(at, one, models, tags) for at, one in enumerate(trials)]


def _trial(at: int, given: object, models: set[str], tags: dict[str, str]) -> CheckedTraining:
    if not isinstance(given, dict) or set(given) - {"name", "spec"}:
        raise InvalidTrainSpec(f"trials[{at}]: give an object of name and spec")
    try:
        refuse_nulls(given)
        checked = check_training(given.get("spec"), models)
        return _with_name(checked, given.get("name", f"trial-{at + 1}"), tags)
    except InvalidTrainSpec as wrong:
        raise InvalidTrainSpec(f"trials[{at}].{wrong}") from None


def _with_name(one: CheckedTraining, name: object, tags: dict[str, str]) -> CheckedTraining:
    names = [found for found in (one.spec["name"], name) if found is not None]
    if not all(is_name(found, LONGEST_NAME) for found in names):
        raise InvalidTrainSpec(f"name: give a text of 1 to {LONGEST_NAME} characters")
    spec = one.spec | {"name": next(iter(names), None)}
    return CheckedTraining(spec=spec, rows=one.rows, tags=tags | one.tags)


def _check_queue(session: Session, more: int) -> None:
    query = select(func.count()).where(
        Job.type == KIND, col(Job.run).is_(None), Job.status == "queued"
    )
    waiting, most = session.exec(query).one(), queue_limit(session)
    if waiting + more > most:
        raise Conflict(
            f"{waiting} trainings wait for the machine already, and {most} may: wait, or stop one"
        )


def _check_disk(home: Home, trained: list[CheckedTraining]) -> None:
    """Take in no rows that would fill the disk: the engine could not begin to work on them."""
    found = room(home.path)
    if found.free < LEAST_FREE + sum(len(one.rows) for one in trained):
        raise Unavailable(
            f"the disk is too full for more rows, {found}: free some space, then send them again"
        )


def _job(caller: Caller, one: CheckedTraining) -> Job:
    digest = hashlib.sha256(one.rows).hexdigest()
    return Job(
        id=f"job-{secrets.token_hex(5)}",
        project_id=caller.project_id,
        type=KIND,
        labels=_labels(one.tags),
        spec=one.spec | {"rows_sha256": digest, "actor": caller.actor},
    )


def _labels(tags: Mapping[str, str]) -> dict[str, str]:
    """The caller's tags over ours; the agent's name is known under two words."""
    agent = tags.get("agent") or tags.get("source") or "pawl"
    return DEFAULT_LABELS | dict(tags) | {"agent": agent, "source": agent}


def _started(session: Session, first: Job) -> shapes.JobStarted:
    """What a submission answers; several trials are listed beside the first."""
    jobs = [session.get_one(Job, name) for name in first.spec["trials"]]
    told = [shapes.JobStarted(job_id=job.id, type=job.type, status=job.status) for job in jobs]
    return told[0].model_copy(update={"trials": told if len(told) > 1 else None})
