"""The precision that was measured as the faster one on a kind of device, kept in the home."""

import json
from pathlib import Path

from data.files import write_durable
from engine.models.worker_engine import WorkerEngine


def kept_precision(home: Path, device: str) -> str | None:
    """What an earlier start measured, so that a run keeps one precision across restarts."""
    try:
        return str(json.loads(_file(home, device).read_text())["precision"])
    except (OSError, ValueError, KeyError):
        return None


def keep_precision(home: Path, device: str, engine: WorkerEngine) -> None:
    """Keep what an engine has measured, so that every later process answers in it as well."""
    kept = {"precision": engine.process.precision, "seconds_a_step": engine.process.tried}
    write_durable(_file(home, device), json.dumps(kept).encode())


def _file(home: Path, device: str) -> Path:
    return home / f"precision-{device.partition(':')[0]}.json"
