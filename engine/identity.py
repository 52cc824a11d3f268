"""The two hashes that travel with every score: what answered, and how it was measured."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from engine.types import Harness, ModelRef, Verifier, as_dict


def content_hash(value: Any) -> str:
    """16 hex digits of the SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def harness_hash(harness: Harness) -> str:
    """Names a harness by content."""
    return content_hash(as_dict(harness))


def version_hash(model: ModelRef, harness: Harness) -> str:
    """Names what answers: base revision, adapter, harness."""
    return content_hash([model.revision, model.adapter_hash, as_dict(harness)])


def protocol(
    task_ids: Iterable[str], verifier: Verifier, harness: Harness, engine: str, seed: int
) -> dict[str, Any]:
    """How a score was measured; versions are compared only when its hash is equal.

    The seed counts only where it changes answers, which is when sampling.
    """
    return {
        "tasks": content_hash(sorted(task_ids)),
        "verifier": verifier.name,
        "verifier_sha256": verifier.sha256,
        "system": harness.system,
        "attempts": harness.attempts,
        "max_tokens": harness.max_tokens,
        "temperature": harness.temperature,
        "seed": seed if harness.temperature > 0 else None,
        "engine": engine,
    }
