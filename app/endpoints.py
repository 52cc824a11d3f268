"""Deployed versions as jobs: taken in, found by name, asked to pause, resume and wake."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from app import job_shapes as shapes
from app.caller import Caller
from app.deployable import WAYS, Target, find_target, harness_of, is_name, names_another
from app.errors import (
    Conflict,
    EndpointPaused,
    InUse,
    InvalidField,
    JobActionUnsupported,
    JobOver,
    ModelNotFound,
    Unsupported,
)
from app.job_status import ACTIVE
from app.known_jobs import digest_of, find_job, known_request
from app.pending import asked_of_jobs
from data.home import Home
from data.tables import EndpointUse, Job, JobControl

KIND = "inference"
FIELDS = {"type", "request_id", "spec"}
SPEC = {"name", "version", "model", "inputs", "serving_profile"}
OURS = ("runner", "hardware", "weights_format", "scaling", "temporary_scope_id")


def deploy(
    session: Session, caller: Caller, home: Home, body: Mapping[str, Any]
) -> shapes.JobStarted:
    """Take in an inference job; the same body again, by its `request_id`, gives the same job.

    The version that is meant must be real and whole, and not be deployed already. A person's own
    name for it must be nobody else's: calls of that one would be answered by this.
    """
    caller.need("deploy")
    request_id, spec = _checked(body)
    digest = digest_of(body)
    again = known_request(session, caller, request_id, KIND, digest)
    if again is not None:
        return _started(again)
    target = find_target(session, caller, home, spec)
    name = spec.get("name") or target.version
    _check_free(session, caller, target, name)
    if names_another(session, caller, home, name, target):
        raise Conflict(f"name: {name} names another version than {target.version}: give another")
    job = Job(
        id=f"endpoint-{secrets.token_hex(5)}",
        project_id=caller.project_id,
        type=KIND,
        labels={"source": "pawl"},
        request_id=request_id,
        spec={
            "name": name,
            "version": target.version,
            "base_model": target.base_model,
            "adapter": target.adapter,
            "harness": harness_of(session, target),
            "serving_profile": spec.get("serving_profile"),
            "request": digest,
            "actor": caller.actor,
        },
    )
    session.add(job)
    return _started(job)


def _check_free(session: Session, caller: Caller, target: Target, name: str) -> None:
    """Refuse a version that is deployed, and a name under which another one answers."""
    for row in active_jobs(session, caller):
        theirs = {row.spec["version"], row.spec["name"]}
        if row.spec["version"] == target.version:
            raise InUse(f"{target.version} is deployed already, by job {row.id}")
        for taken in theirs & {name, target.version}:
            whose = f"{row.spec['version']} is deployed as {taken}, by job {row.id}"
            raise Conflict(f"name: {whose}: give another name, or stop that job first")


def change_endpoint(session: Session, caller: Caller, row: Job, action: str) -> None:
    """Ask for a pause, resume or wake; what is so already, or asked for, is not asked for again."""
    if row.type != KIND:
        raise JobActionUnsupported(
            f"job {row.id} is a {row.type} job: only inference jobs {action}"
        )
    now = shown(session, [row])[row.id]
    if now.status not in ACTIVE or now.status == "cancelling":
        raise JobOver(f"job {row.id} is {now.status}: deploy the version again")
    paused = now.state == "paused"
    if action == "wake" and paused:
        raise EndpointPaused(f"job {row.id} is paused: resume it first")
    done = {"pause": paused, "resume": not paused, "wake": now.state in ("ready", "waking")}
    if not done[action]:
        ask_of(session, caller, row, action)


def ask_of(session: Session, caller: Caller, row: Job, action: str) -> None:
    """Write a request to a job that no loop started; the engine carries it out."""
    session.add(
        JobControl(project_id=row.project_id, job=row.id, action=action, author=caller.actor)
    )
    session.flush()


@dataclass(kw_only=True, slots=True, frozen=True)
class Shown:
    """An inference job as people should see it."""

    status: str
    state: str


def shown(session: Session, rows: Sequence[Job]) -> dict[str, Shown]:
    """Each inference job with what was asked of it, and is not carried out yet, laid over it."""
    asked = asked_of_jobs(session, rows)
    return {row.id: _shown(row, asked.get(row.id, [])) for row in rows if row.type == KIND}


def _shown(row: Job, asked: list[str]) -> Shown:
    status = row.status
    if status not in ACTIVE:
        return Shown(status=status, state="ended")
    state = row.result.get("state") or "waking"  # a new one is woken once, to show that it works
    for action in asked:
        if action == "stop":
            return Shown(status="cancelling", state=state)
        after = {"pause": "paused", "resume": "asleep", "wake": "waking"}[action]
        if (action == "resume") == (state == "paused") and (action, state) != ("wake", "ready"):
            state = after
    return Shown(status=status, state=state)


def model_named(session: Session, caller: Caller, name: object) -> Job:
    """The job that answers under a model name; ModelNotFound lists what there is."""
    rows = active_jobs(session, caller)
    for field in ("version", "name"):  # a version's public name, else a person's own for one
        for row in rows:
            if isinstance(name, str) and row.spec[field] == name:
                return row
    there = ", ".join(one.spec["version"] for one in rows[:10])
    told = f"there are {there}" if there else "none is: deploy one first"
    raise ModelNotFound(f"model: no version is deployed as {name!r}; {told}")


def endpoint_job(session: Session, caller: Caller, job: str) -> Job:
    """An inference job that may be called; JobNotFound for what is none of the caller's."""
    row = find_job(session, caller, job)
    if row.type != KIND:
        raise JobActionUnsupported(f"job {job} is a {row.type} job: only inference jobs are called")
    return row


def active_jobs(session: Session, caller: Caller) -> list[Job]:
    """The project's deployed versions, newest first, without those that are being ended."""
    query = select(Job).where(
        Job.project_id == caller.project_id, Job.type == KIND, col(Job.status).in_(ACTIVE)
    )
    rows = session.exec(query.order_by(col(Job.created_at).desc())).all()
    asked = asked_of_jobs(session, rows)
    return [row for row in rows if "stop" not in asked.get(row.id, [])]


# As people see them


def inference_of(session: Session, rows: Sequence[Job]) -> dict[str, shapes.Inference]:
    """The inside of inference jobs, with how much each was called."""
    jobs = [row for row in rows if row.type == KIND]
    states = shown(session, jobs)
    used = _usage(session, [row.id for row in jobs])
    return {row.id: _inside(row, states[row.id], used.get(row.id, {})) for row in jobs}


def _inside(row: Job, now: Shown, used: Mapping[str, Any]) -> shapes.Inference:
    spec, harness = row.spec, row.spec.get("harness") or {}
    return shapes.Inference(
        model=spec["version"],
        name=spec["name"],
        base_model=spec["base_model"],
        checkpoint=spec.get("adapter"),
        base_url=f"/v1/job/{row.id}/Inference",
        replicas=int(now.state == "ready"),
        state=now.state,
        engine=row.result.get("engine"),
        system=harness.get("system"),
        **used,
    )


def _usage(session: Session, jobs: Sequence[str]) -> dict[str, dict[str, Any]]:
    sums = (
        func.sum(EndpointUse.calls),
        func.sum(EndpointUse.tokens_in),
        func.sum(EndpointUse.tokens_out),
        func.max(EndpointUse.last_at),
    )
    columns: Any = (EndpointUse.job, *sums)
    query = select(*columns).where(col(EndpointUse.job).in_(jobs)).group_by(col(EndpointUse.job))
    names = ("calls", "tokens_in", "tokens_out", "last_call_at")
    return {job: dict(zip(names, found, strict=True)) for job, *found in session.exec(query)}


def deployed_models(
    session: Session, caller: Caller, job: str | None = None
) -> shapes.DeployedModels:
    """Every deployed version under its public name, newest first; or the one of a job."""
    rows = [endpoint_job(session, caller, job)] if job else active_jobs(session, caller)
    return shapes.DeployedModels(
        data=[model_shape(row) for row in rows],
        models=[
            shapes.NamedModel(
                name=row.spec["version"],
                description=f"{row.spec['name']}, on {row.spec['base_model']}",
                release_date=row.created_at[:10],
            )
            for row in rows
        ],
    )


def model_shape(row: Job) -> shapes.DeployedModel:
    """A deployed version as OpenAI's API lists it."""
    created = datetime.fromisoformat(row.created_at)
    return shapes.DeployedModel(id=row.spec["version"], created=int(created.timestamp()))


# The request


def _checked(body: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The request's id and spec; what they may not hold is refused by name."""
    spec, request_id = body.get("spec"), body.get("request_id")
    odd = sorted(set(body) - FIELDS)
    if odd:
        raise InvalidField(f"{odd[0]}: an inference job has type, request_id and spec")
    if request_id is not None and not is_name(request_id, 128):
        raise InvalidField("request_id: give 1 to 128 characters")
    if not isinstance(spec, dict):
        raise InvalidField(f"spec: give an object; {WAYS}")
    taken = [name for name in OURS if spec.get(name) is not None]
    if taken:
        raise Unsupported(f"spec.{taken[0]}: this server chooses how a version is served")
    unknown = sorted(set(spec) - SPEC - set(OURS))
    if unknown:
        raise InvalidField(f"spec.{unknown[0]}: there is no such field; {WAYS}")
    for name in ("name", "version", "model", "serving_profile"):
        if spec.get(name) is not None and not is_name(spec[name], 200):
            raise InvalidField(f"spec.{name}: give 1 to 200 characters")
    return request_id, spec


def _started(job: Job) -> shapes.JobStarted:
    return shapes.JobStarted(job_id=job.id, type=job.type, status=job.status)
