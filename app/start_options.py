"""What a new run can be started with on this server: presets, domains, gateway models."""

from typing import Any

from sqlmodel import Session, col, select

from app import shapes
from app.caller import Caller
from app.runs import find_run
from data.tables import GatewayModel
from recipes.domains import DOMAINS
from recipes.presets import load_preset, preset_names, preset_words


def start_options(session: Session) -> shapes.StartOptions:
    """Every choice that a start form offers."""
    models = session.exec(select(GatewayModel.name).order_by(col(GatewayModel.name))).all()
    return shapes.StartOptions(
        presets=[_preset(name) for name in preset_names()],
        domains={domain.name: domain.label for domain in DOMAINS.values()},
        gateway_models=list(models),
    )


def _preset(name: str) -> shapes.PresetShape:
    preset = load_preset(name)
    return shapes.PresetShape(
        name=name,
        words=preset_words(name),
        domain=preset.get("domain"),
        rounds=preset.get("rounds"),
        base_model=preset.get("base_model"),
    )


def fields_like(session: Session, caller: Caller, run_id: str) -> dict[str, Any]:
    """What a run like that one is started with: every field but its id, none that says nothing."""
    run = find_run(session, caller, run_id)
    config, dry = run.config, run.mode == "dry"
    name = config.get("preset", "default")
    preset = load_preset(name) if name in preset_names() else {}
    usual = {} if dry else preset.get("limits", {})
    counts = {key: n for key, n in config.get("limits", {}).items() if usual.get(key) != n}
    fields = {
        "brief": run.brief,
        "domain": None if run.domain == preset.get("domain") else run.domain,
        "preset": name,
        "rounds": run.rounds_target,
        "limits": run.limits | counts,
        "dry_run": dry or None,
        "student_model": config.get("student_model"),
        "base_model": None if dry or run.base_model == preset.get("base_model") else run.base_model,
        "operator_model": config.get("operator_model"),
        "teacher_model": config.get("teacher_model"),
        "min_gain": _changed(config, preset, "min_gain"),
        "seed": run.seed,
    }
    return {field: value for field, value in fields.items() if value is not None}


def _changed(config: dict[str, Any], preset: dict[str, Any], name: str) -> Any:
    """A setting of the run that its preset does not say already."""
    return None if config.get(name) == preset.get(name) else config.get(name)
