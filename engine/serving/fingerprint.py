"""Tells which adapter is answering, from the logprobs of a fixed prompt answered greedily."""

import math
import secrets
from collections.abc import Mapping
from typing import Any

from engine.errors import ProbeFailed

PROBE_IDS = (1, 17, 4093, 198, 33, 1232, 99, 2)  # any few ids: only sameness matters
PROBE_TOKENS = 8
SAME = 0.02  # two readings of one adapter on one process differ by less, in nats

Fingerprint = tuple[float, ...]


def probe_body(name: str) -> dict[str, Any]:
    """The request whose answer is the fingerprint of the adapter called `name`.

    Nothing is read from the prefix cache (a salt that nothing else has), so that the way to compute
    it is always the same.
    """
    return {
        "model": name,
        "prompt": list(PROBE_IDS),
        "max_tokens": PROBE_TOKENS,
        "temperature": 0,
        "logprobs": 1,
        "prompt_logprobs": 0,
        "ignore_eos": True,
        "return_tokens_as_token_ids": True,
        "cache_salt": secrets.token_hex(8),
    }


def read_fingerprint(answer: Mapping[str, Any]) -> Fingerprint:
    """Logprobs of the prompt's tokens, then number and logprob of each token of the answer."""
    choice = answer["choices"][0]
    read = [one for one in choice["prompt_logprobs"] if one is not None]
    before = [float(value["logprob"]) for one in read for value in one.values()]
    written = [float(token.removeprefix("token_id:")) for token in choice["logprobs"]["tokens"]]
    after = [float(value) for value in choice["logprobs"]["token_logprobs"]]
    return (*before, *written, *after)


def check(name: str, found: Fingerprint, known: Mapping[str, Fingerprint]) -> None:
    """ProbeFailed unless `found` is the known fingerprint of `name`, and of nothing else.

    For a name that is not known yet it must be the fingerprint of nothing that is known.
    """
    others = {other: distance(found, print) for other, print in known.items() if other != name}
    nearest = min(others, key=lambda other: others[other], default=None)
    own = distance(found, known[name]) if name in known else 0.0
    if nearest is not None and others[nearest] <= min(own, SAME):
        raise ProbeFailed(f"{nearest} answers where {name} was asked: nothing of it was used")
    if own > SAME:
        raise ProbeFailed(
            f"{name} does not answer as before (logprobs differ by {own:.3f}): nothing of it was used"
        )


def distance(one: Fingerprint, other: Fingerprint) -> float:
    """The largest difference at any place."""
    if len(one) != len(other):
        return math.inf
    return max(abs(left - right) for left, right in zip(one, other, strict=True))
