"""The two hashes that travel with every score: what answered, and how it was measured."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from engine.types import AnyVerifier, Harness, ModelRef, as_dict


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
    task_ids: Iterable[str],
    verifier: AnyVerifier,
    harness: Harness,
    engine: str,
    seed: int,
    isolation: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """How a score was measured; versions are compared only when its hash is equal.

    The seed counts only where it changes answers, which is when sampling. `isolation` is the
    sandbox's receipt where the Verifier runs code.
    """
    locked_up = {} if isolation is None else {"isolation": dict(isolation)}
    return locked_up | {
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
