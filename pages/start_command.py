"""The same start from a terminal: the command line, and the request that curl sends."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

OPTIONS = {
    "preset": "--preset",
    "domain": "--domain",
    "rounds": "--rounds",
    "student_model": "--student-model",
    "base_model": "--base-model",
    "operator_model": "--operator-model",
    "teacher_model": "--teacher-model",
    "min_gain": "--min-gain",
    "seed": "--seed",
}
CAPS = {
    "max_model_cost_usd": "--max-model-cost-usd",
    "max_cost_usd": "--max-cost-usd",
    "max_model_requests": "--max-model-requests",
}


def command_says_all(fields: Mapping[str, Any]) -> bool:
    """Whether the command line has an option for everything; it has none for counts of tasks."""
    return set(fields.get("limits", {})) <= set(CAPS)


def command(fields: Mapping[str, Any]) -> str:
    """`el job run start ...` with every value quoted for a shell."""
    limits = fields.get("limits", {})
    words = ["el", "job", "run", "start", str(fields.get("run") or "RUN")]
    words += ["--brief", str(fields.get("brief") or "BRIEF")]
    for options, values in ((CAPS, limits), (OPTIONS, fields)):
        for name, option in options.items():
            if values.get(name) is not None:
                words += [option, str(values[name])]
    if fields.get("dry_run"):
        words.append("--dry-run")
    return shlex.join(words)


def curl(fields: Mapping[str, Any], url: str) -> str:
    """The request as curl sends it, with the key taken from the environment."""
    body = json.dumps(fields, ensure_ascii=False)
    return (
        f"curl -X POST {shlex.quote(f'{url}/v1/agent-runs/rsi/runs')} "
        '-H "Authorization: Bearer $ENVLOOP_API_KEY" -H "Content-Type: application/json" '
        f"-d {shlex.quote(body)}"
    )
