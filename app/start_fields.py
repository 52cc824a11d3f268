"""What a caller may say of a new run, checked field by field before anything is looked up."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.config import JsonDict, JsonValue

from app.caps import LIMITS_SCHEMA, checked_limits, whole
from app.errors import InvalidRequest
from app.steering import LONGEST, is_unicode
from recipes.domains import DOMAINS
from recipes.presets import load_preset, preset_names

TRACKS = ("data", "harness", "joint")
RUN_ID = re.compile("[a-z0-9-]{1,64}")
LARGEST_SEED = 2**63 - 1


DRY: JsonDict = {
    "properties": {"dry_run": {"const": True}, "base_model": {"type": "null"}},
    "required": ["dry_run"],
}


def _fits(preset: str, domain: str) -> bool:
    """Whether a preset, or the default one where none is named, is for that domain."""
    return bool(load_preset(preset).get("domain", domain) == domain)


WITH_BASE = [name for name in preset_names() if "base_model" in load_preset(name)]
LIVE: JsonDict = {
    "properties": {
        "dry_run": {"const": False},
        "student_model": {"type": "null"},
        "preset": {"enum": [*WITH_BASE, None]},
    },
}
LIVE_ON_ITS_OWN_BASE: JsonDict = {
    "properties": {
        "dry_run": {"const": False},
        "student_model": {"type": "null"},
        "base_model": {"type": "string"},
    },
    "required": ["base_model"],
}
ITS_DOMAIN: list[JsonValue] = [
    {
        "properties": {
            "domain": {"const": domain},
            "preset": {"enum": [*(n for n in preset_names() if _fits(n, domain)), None]},
        }
    }
    for domain in DOMAINS
]
RULES: JsonDict = {
    "anyOf": [DRY, LIVE, LIVE_ON_ITS_OWN_BASE],
    "allOf": [{"anyOf": [{"properties": {"domain": {"type": "null"}}}, *ITS_DOMAIN]}],
}
Whole = Annotated[int, BeforeValidator(whole)]


def told(description: str, default: Any = ..., **schema: Any) -> Any:
    """A field with what its documentation says; what it may hold is checked below, in words."""
    return Field(default, description=description, json_schema_extra=schema)


class StartFields(BaseModel):
    """What a caller may say of a new run; unknown fields are refused by name."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=RULES)

    run: str = told("the run's id, free in every project", pattern="^[a-z0-9-]{1,64}$")
    brief: str = told(
        "what the run is for; every round reads it", maxLength=LONGEST, pattern=r"\S", minLength=1
    )
    limits: dict[str, Any] = told("caps and counts; the model cap is required", **LIMITS_SCHEMA)
    domain: str | None = told("what the student learns", None, enum=[*DOMAINS, None])
    rounds: Whole | None = told("how many rounds", None, minimum=1, maximum=1000)
    dry_run: bool = told("nothing is trained, no device is used; models are still paid", False)
    student_model: str | None = told("the gateway student of a dry run; only there", None)
    preset: str | None = told(
        "a preset of this server; other fields override it", None, enum=[*preset_names(), None]
    )
    base_model: str | None = told("the base model of a live run, by its registry name", None)
    track: str | None = told("what a round changes: data alone so far", None, enum=["data", None])
    operator_model: str | None = told("the gateway model that plans", None)
    teacher_model: str | None = told("the gateway model that answers for the student", None)
    min_gain: float | None = told("the least gain that promotes", None, minimum=0, maximum=1)
    seed: Whole | None = told(
        "makes the run repeatable, and its blind tasks follow from it",
        None,
        minimum=-LARGEST_SEED,
        maximum=LARGEST_SEED,
    )
    start_after: str | None = told("the run waits until then", None, format="date-time")


@dataclass(kw_only=True, slots=True, frozen=True)
class Checked:
    """A start that passed every check which needs no database."""

    fields: StartFields
    config: dict[str, Any]
    caps: dict[str, float | int]
    domain: str
    rounds: int
    base_model: str | None  # None: a dry run's default student
    start_after: str | None


def check_start(given: Mapping[str, object], base_models: Collection[str]) -> Checked:
    """Check fields, limits and preset; InvalidRequest names what does not fit."""
    fields = _fields(given)
    _check_words(fields)
    preset = _preset(fields.preset)
    caps, counts = checked_limits(fields.limits)
    if "max_model_cost_usd" not in caps:
        raise InvalidRequest("limits.max_model_cost_usd: required; it is the model spend cap")
    rounds = fields.rounds if fields.rounds is not None else preset.get("rounds", 3)
    if not 1 <= rounds <= 1000:
        raise InvalidRequest("rounds: give 1 to 1000")
    return Checked(
        fields=fields,
        config=_config(fields, preset, counts),
        caps=caps,
        domain=_domain(fields, preset),
        rounds=rounds,
        base_model=_base_model(fields, preset, base_models),
        start_after=_moment(fields.start_after),
    )


def _fields(given: Mapping[str, object]) -> StartFields:
    try:
        return StartFields.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        what = "not a field of a start" if fault["type"] == "extra_forbidden" else fault["msg"]
        raise InvalidRequest(f"{where}: {what}") from None


def _check_words(fields: StartFields) -> None:
    if not RUN_ID.fullmatch(fields.run):
        raise InvalidRequest("run: use 1 to 64 lower-case letters, digits and dashes")
    brief = fields.brief
    if not brief.strip() or len(brief) > LONGEST or not is_unicode(brief):
        raise InvalidRequest(f"brief: give 1 to {LONGEST} characters that are not all blank")
    if fields.student_model is not None and not fields.dry_run:
        raise InvalidRequest("student_model: only a dry run has a gateway student")
    if fields.base_model is not None and fields.dry_run:
        raise InvalidRequest("base_model: a dry run trains none; name its student_model")
    if fields.min_gain is not None and not 0 <= fields.min_gain <= 1:
        raise InvalidRequest("min_gain: give a number from 0 to 1")
    if fields.seed is not None and abs(fields.seed) > LARGEST_SEED:
        raise InvalidRequest(f"seed: give a whole number of at most {LARGEST_SEED}")
    if fields.track is not None and fields.track not in TRACKS:
        raise InvalidRequest(f"track: {fields.track!r} is not one of {', '.join(TRACKS)}")
    if fields.track not in (None, "data"):
        raise InvalidRequest(f"track: {fields.track} does not work here yet; data does")


def _domain(fields: StartFields, preset: Mapping[str, Any]) -> str:
    domain: str = preset.get("domain", "arith") if fields.domain is None else fields.domain
    if domain not in DOMAINS:
        raise InvalidRequest(f"domain: {domain!r} is not one of {sorted(DOMAINS)}")
    if domain != preset.get("domain", domain):
        raise InvalidRequest(f"domain: preset {fields.preset} is for {preset['domain']}")
    return domain


def _moment(text: str | None) -> str | None:
    """An ISO 8601 time with its offset, written like every time in the tables."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
        has_offset = datetime.fromisoformat(text).tzinfo is not None
    except (ValueError, OverflowError):
        has_offset = False
    if not has_offset:
        raise InvalidRequest("start_after: give a time such as 2026-01-31T22:00:00Z")
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _preset(name: str | None) -> dict[str, Any]:
    if name is None:
        return load_preset("default")
    if name not in preset_names():
        raise InvalidRequest(f"preset: {name!r} is not one of {preset_names()}")
    return load_preset(name)


def _base_model(
    fields: StartFields, preset: Mapping[str, Any], base_models: Collection[str]
) -> str | None:
    if fields.dry_run:
        return fields.student_model
    base = preset.get("base_model") if fields.base_model is None else fields.base_model
    if base is None:
        text = f"preset {fields.preset} is for a base model of your own, added with"
        raise InvalidRequest(f"base_model: {text} run.py model add-base: name it")
    if base not in base_models:
        raise InvalidRequest(f"base_model: {base!r} is not one of {sorted(base_models)}")
    return base


def _config(
    fields: StartFields, preset: Mapping[str, Any], counts: Mapping[str, int]
) -> dict[str, Any]:
    """The run's own record of its settings: the preset with the caller's changes over it."""
    changes = {
        "preset": fields.preset or "default",
        "mode": "dry" if fields.dry_run else "live",
        "track": fields.track or "data",
        "operator_model": fields.operator_model,
        "teacher_model": fields.teacher_model,
        "min_gain": fields.min_gain,
    }
    config = dict(preset) | {name: value for name, value in changes.items() if value is not None}
    limits = {} if fields.dry_run else preset.get("limits", {})
    return config | {"limits": dict(limits) | dict(counts)}
