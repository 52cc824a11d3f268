"""Joins training jobs into the runs that their labels name. A label is a name, not a result."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

ACTIVE = frozenset({"queued", "pending", "starting", "running", "recovering", "cancelling"})
NOT_BEGUN = frozenset({"queued", "pending"})
PREFIXES = ("agent", "rsi")  # generic labels win

Json = dict[str, Any]


def group(jobs: Iterable[Json]) -> list[Json]:
    """Runs with their rounds, jobs and checkpoints, the most recently updated first."""
    runs: defaultdict[str, list[Json]] = defaultdict(list)
    for job in jobs:
        labels = _labels(job)
        run = _label(labels, "run")
        if run is not None:
            runs[run].append(_entry(job, labels))
    grouped = [_run(name, entries) for name, entries in runs.items()]
    return sorted(grouped, key=lambda run: _time(run["updated_at"]), reverse=True)


def summary(run: Json) -> Json:
    """A run as lists show it."""
    return {name: value for name, value in run.items() if name not in ("rounds", "checkpoints")}


def _run(name: str, entries: list[Json]) -> Json:
    entries = sorted(entries, key=lambda entry: _time(entry["created_at"]))
    newest = entries[-1]
    is_active = any(entry["status"] in ACTIVE for entry in entries)
    checkpoints = [_checkpoint(entry) for entry in entries if entry["checkpoint"]]
    updated = max((entry["updated_at"] for entry in entries), key=_time)
    return {
        "run": name,
        "agent": newest["user_metadata"].get("agent") or newest["user_metadata"].get("source"),
        "status": "running" if is_active else newest["status"],
        "latest_round": max((e["round"] for e in entries if e["round"] is not None), default=None),
        "trainings": {
            "succeeded": sum(entry["status"] == "completed" for entry in entries),
            "total": len(entries),
        },
        "latest_checkpoint": _latest(checkpoints),
        "base_model": newest["base_model"],
        "created_at": entries[0]["created_at"],
        "updated_at": updated,
        "rounds": _rounds(entries),
        "checkpoints": checkpoints,
    }


def _latest(checkpoints: list[Json]) -> Json | None:
    if not checkpoints:
        return None
    return {name: checkpoints[-1][name] for name in ("name", "path", "train_job_id")}


def _rounds(entries: list[Json]) -> list[Json]:
    """Jobs by round, first round first; those without a round come last."""
    rounds: defaultdict[int | None, list[Json]] = defaultdict(list)
    for entry in entries:
        rounds[entry["round"]].append(entry)
    numbers = sorted(rounds, key=lambda number: (number is None, number or 0))
    return [{"round": number, "jobs": rounds[number]} for number in numbers]


def _checkpoint(entry: Json) -> Json:
    return {
        **entry["checkpoint"],
        "round": entry["round"],
        "train_job_id": entry["train_job_id"],
        "created_at": entry["created_at"],
    }


def _entry(job: Json, labels: Mapping[str, Any]) -> Json:
    """A job as a run shows it."""
    flat = _training(job) | {name: value for name, value in job.items() if value is not None}
    return {
        "train_job_id": flat.get("job_id"),
        "status": flat.get("status"),
        "round": _round(labels),
        "purpose": _label(labels, "purpose"),
        "method": _label(labels, "method"),
        "transitions": flat.get("transitions") or [],
        "created_at": flat.get("created_at"),
        "updated_at": flat.get("updated_at"),
        "duration_sec": _seconds(flat),
        "base_model": flat.get("base_model"),
        "lora_rank": flat.get("lora_rank"),
        "model_id": flat.get("model_id"),
        "checkpoint": _saved(flat, labels),
        "user_metadata": dict(labels),
    }


def _saved(flat: Json, labels: Mapping[str, Any]) -> Json | None:
    path = (flat.get("checkpoint") or {}).get("path")
    if not isinstance(path, str) or not path:
        return None
    return {"name": _label(labels, "checkpoint") or path.rpartition("/")[2], "path": path}


def _labels(job: Json) -> Mapping[str, Any]:
    """Where a job says which run it belongs to: tags, else the session's notes, else its model's."""
    training = _training(job)
    models = training.get("models")
    only = models[0] if isinstance(models, list) and len(models) == 1 else None
    notes = only.get("user_metadata") if isinstance(only, dict) else None
    for found in (training.get("tags"), training.get("user_metadata"), notes):
        if isinstance(found, dict) and _label(found, "run") is not None:
            return found
    return {}


def _label(labels: Mapping[str, Any], name: str) -> str | None:
    values = (labels.get(f"{prefix}_{name}") for prefix in PREFIXES)
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def _round(labels: Mapping[str, Any]) -> int | None:
    for prefix in PREFIXES:
        value = labels.get(f"{prefix}_round")
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().isdecimal():
            return int(value)
    return None


def _training(job: Json) -> Json:
    training = job.get("training")
    return dict(training) if isinstance(training, dict) else {}


def _seconds(flat: Json) -> int | None:
    if flat.get("status") in NOT_BEGUN or not flat.get("created_at") or not flat.get("updated_at"):
        return None
    return max(0, int(_time(flat["updated_at"]) - _time(flat["created_at"])))


def _time(value: Any) -> float:
    """Seconds since 1970 of an ISO 8601 time; 0 when there is none."""
    try:
        return datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError):
        return 0.0
