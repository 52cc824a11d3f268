"""Starting a run: the run with its first job in one write, or a refusal."""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, select

from app import shapes
from app.caller import Caller
from app.caps import limits_shape
from app.errors import Conflict, InvalidRequest
from app.models import check_models
from app.start_fields import Checked
from data import crash
from data.settings import setting
from data.tables import Job, Run, now
from recipes.domains import DOMAINS
from recipes.external import EXTERNAL

SIMULATED = "sim/"
# What is wrong with a recipe on a base model, by name; nothing when it may train.
RecipeFaults = Callable[[str, Mapping[str, Any]], Sequence[str]]
QUEUE_LIMIT = 20  # live runs that may wait, where the settings say nothing else


def insert_run(session: Session, caller: Caller, checked: Checked) -> Run:
    """Write the run as `starting` with its first bookkeeping job; Conflict when it cannot be."""
    fields = checked.fields
    student = checked.base_model
    if student is None:
        student = setting(session, "default_student", f"{SIMULATED}student")
    models = _models(checked, student)
    check_models(session, models)
    _check_state(session, checked)
    waits = checked.start_after is not None and checked.start_after > now()
    run = Run(
        id=fields.run,
        project_id=caller.project_id,
        workspace_id=caller.workspace_id,
        actor=caller.actor,
        brief=fields.brief,
        domain=checked.domain,
        mode="dry" if fields.dry_run else "live",
        simulated=any(name.startswith(SIMULATED) for name in [student, *models.values()]),
        base_model=student,
        config=checked.config | ({"student_model": student} if fields.dry_run else {}),
        limits=dict(checked.caps),
        seed=fields.seed,
        secret=_secret(fields.seed),
        rounds_target=checked.rounds,
        start_after=checked.start_after,
        reason=f"starts after {checked.start_after}" if waits else None,
    )
    session.add(run)
    session.flush()
    session.add(_first_job(run))
    crash.point("in_door_run")
    return run


def check_sandbox(checked: Checked, why_no_sandbox: Callable[[], str | None]) -> None:
    """Conflict, with the sandbox engine's own message, when code cannot be run that must be."""
    code = _runs_code(checked)
    why = why_no_sandbox() if code else None
    if why is not None:
        text = f"{code} runs code that a model wrote, and no sandbox works here: {why}"
        raise Conflict(text, "SANDBOX_UNAVAILABLE")


def no_faults(_base: str, _config: Mapping[str, Any]) -> Sequence[str]:
    """For a process that trains nothing."""
    return ()


def check_recipe(checked: Checked, faults: RecipeFaults) -> None:
    """Conflict, naming the setting, when a live run's adapter could not be trained or served."""
    if checked.fields.dry_run or checked.base_model is None:
        return
    found = faults(checked.base_model, checked.config)
    if found:
        text = f"preset {checked.config['preset']}: {'; '.join(found)}"
        raise Conflict(text, "RECIPE_REFUSED")


def _runs_code(checked: Checked) -> str | None:
    """What of a run needs a sandbox; InvalidRequest when a suite of its preset cannot be had."""
    if DOMAINS[checked.domain].needs_sandbox:
        return f"domain {checked.domain}"
    for name in checked.config.get("external", ()):
        try:
            if name in EXTERNAL and EXTERNAL[name]().needs_sandbox:
                return f"external suite {name}"
        except ValueError as missing:
            raise InvalidRequest(f"external: {missing}") from None
    return None


def receipt(run: Run) -> shapes.RunStarted:
    """What a start answers."""
    return shapes.RunStarted(
        run=run.id,
        state=run.state,
        mode=run.mode,
        simulated=run.simulated,
        domain=run.domain,
        round=run.round,
        rounds_target=run.rounds_target,
        owner=shapes.Owner(
            workspace_id=run.workspace_id, project_id=run.project_id, actor=run.actor
        ),
        limits=limits_shape(run.limits),
        created_at=run.created_at,
    )


def _models(checked: Checked, student: str) -> dict[str, str]:
    """The gateway models of the run, by the field that names them."""
    fields = checked.fields
    names = {
        "operator_model": fields.operator_model,
        "teacher_model": fields.teacher_model,
        "student_model": student if fields.dry_run else None,
    }
    return {field: name for field, name in names.items() if name is not None}


def _check_state(session: Session, checked: Checked) -> None:
    """Conflict when the id is taken or too many runs wait."""
    run = checked.fields.run
    if session.get(Run, run) is not None:
        raise Conflict(f"run {run} exists already; choose another id")
    waiting = select(func.count()).where(Run.state == "starting", Run.mode == "live")
    most = queue_limit(session)
    if not checked.fields.dry_run and session.exec(waiting).one() >= most:
        raise Conflict(f"{most} runs wait for the machine already; wait for one, or stop one")


def queue_limit(session: Session) -> int:
    """How many live runs may wait for the machine."""
    return int(setting(session, "queue_limit", str(QUEUE_LIMIT)))


def _secret(seed: int | None) -> str:
    """A seeded run can be repeated; any other has a secret of its own."""
    if seed is None:
        return secrets.token_hex(32)
    return hashlib.sha256(f"run|{seed}".encode()).hexdigest()


def _first_job(run: Run) -> Job:
    """The bookkeeping job that shows the run in job lists from its first moment."""
    dry = run.mode == "dry"
    labels = {
        "rsi_run": run.id,
        "rsi_round": "1",
        "rsi_purpose": "dry round, nothing trained" if dry else "train candidate",
        "rsi_method": "none" if dry else "sft",
        "agent": "pawl",
        "source": "pawl",
    }
    return Job(
        id=f"{run.id}-r1",
        project_id=run.project_id,
        run=run.id,
        round=1,
        type="train",
        labels=labels,
        bookkeeping=True,
    )
