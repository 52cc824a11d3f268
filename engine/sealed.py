"""Sealed tasks: blind and held-out ones, made from a secret that the blind evaluation alone reads.

Only engine/rounds/blind.py may import this module; a test holds it to that.
"""

import hashlib
import hmac
from collections.abc import Mapping

from engine.errors import StepFailed
from engine.facts import RunFacts
from engine.splits import Drawn, draw
from engine.types import Family, Task

KEY_BYTES = 32


def blind_tasks(
    run: RunFacts, counts: Mapping[str, int], starts: Mapping[str, int]
) -> tuple[list[Drawn], dict[str, int]]:
    """Fresh blind tasks: `counts` a family, from the indices in `starts`; the next indices too."""
    secret = _secret(run)
    drawn: list[Drawn] = []
    following: dict[str, int] = {}
    for family in run.config.families:
        seen = {one.task.canonical_key for one in _earlier(run, secret, family, starts)}
        found, following[family.id] = draw(
            run.secret,
            secret,
            "blind",
            family,
            starts.get(family.id, 0),
            counts[family.id],
            seen=seen,
        )
        drawn += found
    return drawn, following


def held_out_tasks(run: RunFacts, counts: Mapping[str, int]) -> list[Task]:
    """The run's fixed held-out tasks: the same ones in every round."""
    secret = _secret(run)
    tasks: list[Task] = []
    for family in run.config.held_out:
        found, _ = draw(run.secret, secret, "held_out", family, 0, counts[family.id])
        tasks += [one.task for one in found]
    return tasks


def _earlier(
    run: RunFacts, secret: bytes, family: Family, starts: Mapping[str, int]
) -> list[Drawn]:
    """What earlier rounds drew of a family, so that no meaning is asked twice."""
    end = starts.get(family.id, 0)
    found: list[Drawn] = []
    start = 0
    while start < end:
        more, start = draw(run.secret, secret, "blind", family, start, 1)
        found += [one for one in more if one.index < end]
    return found


def _secret(run: RunFacts) -> bytes:
    """This run's blind secret: from its seed when it has one, else from the home's blind key."""
    if run.seed is not None:
        return hashlib.sha256(f"blind|{run.seed}".encode()).digest()
    key = bytes.fromhex(run.home.blind_key.read_text().strip())
    if len(key) != KEY_BYTES:
        raise StepFailed(f"{run.home.blind_key} is damaged: restore it from a backup of the home")
    return hmac.new(key, run.id.encode(), hashlib.sha256).digest()
