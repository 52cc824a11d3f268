"""A run's own settings, read from its row: families, harness, limits, training, gate."""

from dataclasses import dataclass, fields, replace
from typing import Any

from engine.types import Domain, Family, Harness, LoraSettings


@dataclass(kw_only=True, slots=True, frozen=True)
class Limits:
    """How much a round does, by default for a live run; counts are tasks unless named otherwise.

    `request_cap` and `student_request_cap` count requests through the gateway in one round, the first
    those of operator, teacher and auditor together. `calib_n` is recorded and not yet acted on.
    """

    diag_per_family: int = 20
    dev_n: int = 300
    collect_tasks: int = 400
    collect_k: int = 4
    admission_n: int = 60
    blind_n: int = 400
    max_rows_per_family: int = 500
    dev_use_cap: int = 20
    eval_limit: int = 500
    calib_n: int = 300
    request_cap: int = 200
    student_request_cap: int = 6000


DRY_LIMITS = Limits(
    diag_per_family=5,
    dev_n=60,
    collect_tasks=40,
    collect_k=2,
    admission_n=20,
    blind_n=60,
    max_rows_per_family=50,
    dev_use_cap=5,
    eval_limit=50,
    calib_n=60,
    request_cap=40,
    student_request_cap=600,
)


@dataclass(kw_only=True, slots=True, frozen=True)
class RunConfig:
    """What one run was started with; the same record in every phase and after every restart."""

    preset: str
    families: tuple[Family, ...]
    held_out: tuple[Family, ...]
    harness: Harness
    limits: Limits
    lora: LoraSettings
    train_from: str = "base"  # base | best: where a round's adapter starts
    replay_share: float = 0.25
    min_gain: float = 0.02
    guard_tolerance: float = 0.05
    student_model: str | None = None
    operator_model: str | None = None
    teacher_model: str | None = None
    external: tuple[str, ...] = ()  # external suites that the blind phase measures beside


def read_config(config: dict[str, Any], domain: Domain) -> RunConfig:
    """The settings of a run's row; a ValueError names the family or key that does not fit."""
    limits = DRY_LIMITS if config.get("mode") == "dry" else Limits()
    limits = _changed(limits, config.get("limits", {}))
    harness = Harness(system=domain.system, max_tokens=domain.max_tokens)
    plain = {
        name: config[name]
        for name in (
            "train_from",
            "replay_share",
            "min_gain",
            "guard_tolerance",
            "student_model",
            "operator_model",
            "teacher_model",
        )
        if config.get(name) is not None
    }
    return RunConfig(
        preset=config.get("preset", "default"),
        families=chosen_families(domain, config.get("families"), "train"),
        held_out=chosen_families(domain, config.get("held_out"), "held_out"),
        harness=_changed(harness, config.get("harness", {})),
        limits=limits,
        lora=_changed(LoraSettings(), config.get("lora", {})),
        external=tuple(config.get("external", ())),
        **plain,
    )


def chosen_families(
    domain: Domain, chosen: list[dict[str, Any]] | None, role: str
) -> tuple[Family, ...]:
    """The chosen families with their parameters, or all of the domain that have the role."""
    if chosen is None:
        return tuple(family for family in domain.families if family.role == role)
    families = tuple(
        domain.family(one["id"]).with_params({k: v for k, v in one.items() if k != "id"})
        for one in chosen
    )
    for family in families:
        if family.role != role:
            raise ValueError(f"{family.id} is a {family.role} family, not {role}")
    return families


def _changed(record: Any, changes: dict[str, Any]) -> Any:
    known = {name.name for name in fields(record)}
    unknown = sorted(set(changes) - known)
    if unknown:
        raise ValueError(f"{unknown[0]} is not a setting here; known are {sorted(known)}")
    return replace(record, **changes)
