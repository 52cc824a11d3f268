"""Starting a run: every field checked at the door, then the run and its first job in one write."""

import hashlib
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict
from sqlmodel import Session, select

from app.caller import Caller
from app.errors import Conflict, InvalidRequest
from data.tables import GatewayModel, Job, Run
from recipes.domains import DOMAINS
from recipes.presets import load_preset, preset_names

CAPS = {
    "max_model_cost_usd": "model_usd_cap",
    "max_cost_usd": "usd_cap",
    "max_model_requests": "model_request_cap",
}
COUNTS = {
    "request_cap",
    "student_request_cap",
    "diag_per_family",
    "dev_n",
    "collect_tasks",
    "collect_k",
    "admission_n",
    "blind_n",
    "max_rows_per_family",
    "dev_use_cap",
    "eval_limit",
    "calib_n",
}
WHOLE = COUNTS | {"max_model_requests"}
SIMULATED = "sim/"


class StartFields(BaseModel):
    """What a caller may say of a new run; unknown fields are refused by name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    run: str
    brief: str
    limits: dict[str, Any]
    domain: str | None = None
    rounds: int | None = None
    dry_run: bool = False
    student_model: str | None = None
    preset: str | None = None
    base_model: str | None = None
    operator_model: str | None = None
    teacher_model: str | None = None
    min_gain: float | None = None
    seed: int | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class Checked:
    """A start that passed every check which needs no database."""

    fields: StartFields
    config: dict[str, Any]
    caps: dict[str, float | int]
    domain: str
    rounds: int
    base_model: str


def check_start(fields: StartFields) -> Checked:
    """Check fields, limits and preset; InvalidRequest names what does not fit."""
    if not re.fullmatch(r"[a-z0-9-]{1,64}", fields.run):
        raise InvalidRequest("run: use 1 to 64 lower-case letters, digits and dashes")
    if not fields.brief.strip() or len(fields.brief) > 4000:
        raise InvalidRequest("brief: give 1 to 4000 characters")
    if fields.student_model is not None and not fields.dry_run:
        raise InvalidRequest("student_model: only a dry run has a gateway student")
    if fields.min_gain is not None and not 0 <= fields.min_gain <= 1:
        raise InvalidRequest("min_gain: give a number from 0 to 1")
    preset = _preset(fields.preset)
    caps, counts = _check_limits(fields.limits)
    domain = fields.domain or preset.get("domain", "arith")
    if domain not in DOMAINS:
        raise InvalidRequest(f"domain: {domain!r} is not one of {sorted(DOMAINS)}")
    if domain != preset.get("domain", domain):
        raise InvalidRequest(f"domain: preset {fields.preset} is for {preset['domain']}")
    rounds = fields.rounds if fields.rounds is not None else preset.get("rounds", 3)
    if not 1 <= rounds <= 1000:
        raise InvalidRequest("rounds: give 1 to 1000")
    base = _base_model(fields, preset)
    return Checked(
        fields=fields,
        config=_config(fields, preset, counts),
        caps=caps,
        domain=domain,
        rounds=rounds,
        base_model=base,
    )


def insert_run(session: Session, caller: Caller, checked: Checked) -> Run:
    """Write the run as `starting` with its first bookkeeping job; Conflict when the id is taken."""
    fields = checked.fields
    if session.get(Run, fields.run) is not None:
        raise Conflict(f"run {fields.run} exists already; choose another id")
    _check_models(session, checked)
    run = Run(
        id=fields.run,
        project_id=caller.project_id,
        workspace_id=caller.workspace_id,
        actor=caller.actor,
        brief=fields.brief,
        domain=checked.domain,
        mode="dry" if fields.dry_run else "live",
        simulated=_is_simulated(checked),
        base_model=checked.base_model,
        config=checked.config,
        limits=dict(checked.caps),
        seed=fields.seed,
        secret=_secret(fields.seed),
        rounds_target=checked.rounds,
    )
    session.add(run)
    session.flush()
    session.add(_first_job(run))
    return run


def _preset(name: str | None) -> dict[str, Any]:
    if name is None:
        return load_preset("default")
    if name not in preset_names():
        raise InvalidRequest(f"preset: {name!r} is not one of {preset_names()}")
    return load_preset(name)


def _check_limits(
    limits: Mapping[str, Any],
) -> tuple[dict[str, float | int], dict[str, int]]:
    """The three caps under their documented names, and the counts."""
    aliases = {alias: name for name, alias in CAPS.items()}
    found: dict[str, float | int] = {}
    for key, value in limits.items():
        name = aliases.get(key, key)
        if name not in CAPS and name not in COUNTS:
            raise InvalidRequest(f"limits.{key}: not a limit; known are {sorted(CAPS)} and counts")
        number = _number(key, value, whole=name in WHOLE)
        if found.get(name, number) != number:
            raise InvalidRequest(f"limits: {name} and {CAPS[name]} differ; give one of them")
        found[name] = number
    if "max_model_cost_usd" not in found:
        raise InvalidRequest("limits.max_model_cost_usd: required; it is the model spend cap")
    caps = {name: value for name, value in found.items() if name in CAPS}
    counts = {name: int(value) for name, value in found.items() if name in COUNTS}
    return caps, counts


def _number(key: str, value: Any, *, whole: bool) -> float | int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        raise InvalidRequest(f"limits.{key}: give a positive number")
    if whole and not isinstance(value, int):
        raise InvalidRequest(f"limits.{key}: give a whole number")
    result: float | int = value
    return result


def _base_model(fields: StartFields, preset: Mapping[str, Any]) -> str:
    if fields.dry_run:
        return fields.student_model or f"{SIMULATED}student"
    base: str = fields.base_model or preset["base_model"]
    return base


def _config(
    fields: StartFields, preset: Mapping[str, Any], counts: Mapping[str, int]
) -> dict[str, Any]:
    """The run's own record of its settings: the preset with the caller's changes over it."""
    changes = {
        "preset": fields.preset or "default",
        "mode": "dry" if fields.dry_run else "live",
        "student_model": fields.student_model,
        "operator_model": fields.operator_model,
        "teacher_model": fields.teacher_model,
        "min_gain": fields.min_gain,
    }
    config = dict(preset) | {name: value for name, value in changes.items() if value is not None}
    limits = {} if fields.dry_run else preset.get("limits", {})
    return config | {"limits": dict(limits) | dict(counts)}


def _check_models(session: Session, checked: Checked) -> None:
    """Every gateway model that the run names has a known price."""
    fields = checked.fields
    names = [fields.operator_model, fields.teacher_model]
    if fields.dry_run:
        names.append(checked.base_model)
    known = set(session.exec(select(GatewayModel.name)))
    for name in names:
        if name is not None and name not in known:
            raise InvalidRequest(f"{name} has no known price here; known are {sorted(known)}")


def _is_simulated(checked: Checked) -> bool:
    """Whether any model that the run uses is simulated: then its figures are, too."""
    fields = checked.fields
    models = (checked.base_model, fields.operator_model, fields.teacher_model)
    return any(model is not None and model.startswith(SIMULATED) for model in models)


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
