"""Which split a task belongs to, with the drawing of fresh tasks from a split.

A task's seed is an HMAC of (split, family, version, index), so neighbouring indices and run
secrets share nothing. Its split is an HMAC bucket of the canonical key, so that no task can be in
two splits, however small the family, and a prompt that shows another task's answer stays in that
task's split. Held-out families are separate altogether and need no bucket.
"""

import hmac
from collections.abc import Callable, Container
from dataclasses import dataclass

from engine.errors import DrawExhausted
from engine.types import Family, Task

# Buckets 0-99 by split: the first bucket of each and the first after it.
BUCKETS: dict[str, range] = {
    "train": range(60),
    "diag": range(60, 70),
    "dev": range(70, 80),
    "calib": range(80, 85),
    "blind": range(85, 100),
}
WALK_FLOOR = 5_000  # indices that any draw may walk
WALK_PER_TASK = 500  # further indices for each task asked for


@dataclass(kw_only=True, slots=True, frozen=True)
class Drawn:
    """One task with the index that it was made from."""

    index: int
    task: Task


def draw(
    secret: bytes,
    seed_secret: bytes,
    split: str,
    family: Family,
    start: int,
    count: int,
    wanted: Callable[[Task], bool] | None = None,
    seen: Container[str] = (),
) -> tuple[list[Drawn], int]:
    """Walk the family's indices from `start` to `count` fresh tasks of a split.

    `secret` decides buckets, `seed_secret` makes item seeds (another one for sealed splits).
    Tasks that `wanted` refuses, or whose canonical key is in `seen`, are passed over.
    Returns the tasks and the index to start from next time; DrawExhausted when the walk is longer
    than WALK_FLOOR + WALK_PER_TASK * count indices.
    """
    _check_role(split, family)
    drawn: list[Drawn] = []
    keys: set[str] = set()
    index, end = start, start + WALK_FLOOR + WALK_PER_TASK * count
    while len(drawn) < count:
        if index == end:
            raise DrawExhausted(_exhausted(split, family, count, len(drawn), start, end))
        task = family.make(item_seed(seed_secret, split, family.id, family.version, index))
        key = task.canonical_key
        fresh = key not in keys and key not in seen
        if fresh and _belongs(secret, split, family, task) and (wanted is None or wanted(task)):
            drawn.append(Drawn(index=index, task=task))
            keys.add(key)
        index += 1
    return drawn, index


def item_seed(secret: bytes, split: str, family_id: str, version: str, index: int) -> int:
    """The 64-bit seed of one item: no two of (split, family, version, index) share one."""
    for word in (split, family_id, version):
        if "|" in word:
            raise ValueError(
                f"{word!r} holds a '|', which separates the parts of a seed: rename it"
            )
    text = f"{split}|{family_id}|{version}|{index}"
    return int.from_bytes(_hmac(secret, text)[:8], "big")


def bucket(secret: bytes, canonical_key: str) -> int:
    """The bucket, 0 to 99, that this run puts every wording of a task in."""
    return int.from_bytes(_hmac(secret, f"bucket|{canonical_key}"), "big") % 100


def split_of(secret: bytes, canonical_key: str) -> str:
    """The one split that a task of a trained family may be used in."""
    number = bucket(secret, canonical_key)
    return next(split for split, numbers in BUCKETS.items() if number in numbers)


def check_room(split: str, family: Family, needed: int) -> None:
    """Refuse, with DrawExhausted, a plan that needs more than `room_for` allows."""
    room = room_for(split, family)
    if room is not None and needed > room:
        raise DrawExhausted(
            f"{family.label} ({family.id}) has {family.key_count:,} different tasks with these "
            f"parameters, of which {split} may use {room:,}, and the plan needs {needed:,}: ask "
            f"for fewer, or widen {', '.join(sorted(family.params))}"
        )


def room_for(split: str, family: Family) -> int | None:
    """Half of the family's keys in a split, by the split's share; None when without end.

    The other half stays undrawn, so that fresh tasks can still be found in reasonable time.
    """
    _check_role(split, family)
    keys = family.key_count
    if keys is None:
        return None
    percent = 100 if family.role == "held_out" else len(BUCKETS[split])
    return keys * percent // 200


def _check_role(split: str, family: Family) -> None:
    if family.role == "held_out" and split != "held_out":
        raise ValueError(f"{family.id} is held out: it has no tasks for {split}")
    if family.role != "held_out" and split not in BUCKETS:
        raise ValueError(f"{family.id} has no split {split}; it has {', '.join(BUCKETS)}")


def _belongs(secret: bytes, split: str, family: Family, task: Task) -> bool:
    if family.role == "held_out":
        return True
    return all(bucket(secret, key) in BUCKETS[split] for key in (task.canonical_key, *task.shows))


def _hmac(secret: bytes, text: str) -> bytes:
    return hmac.digest(secret, text.encode(), "sha256")


def _exhausted(split: str, family: Family, count: int, found: int, start: int, end: int) -> str:
    keys = "more than 10 million" if family.key_count is None else f"{family.key_count:,}"
    return (
        f"{family.label} ({family.id}): {found:,} of {count:,} fresh {split} tasks found in indices "
        f"{start:,} to {end - 1:,}; there are {keys} different tasks in all splits together. Ask "
        f"for fewer tasks, or widen {', '.join(sorted(family.params)) or 'the family'}"
    )
