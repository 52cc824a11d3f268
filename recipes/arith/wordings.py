"""Whether a teacher's wording of a task may stand beside the task's own.

Two things are certain from the text alone: it holds the same numbers, and it is not the wording of
a held-out family, which nothing may be trained on. That it asks the same is tried by answering it.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from engine.types import Family, Task

LONGEST = 300  # characters
SEEDS = 200  # tasks of each held-out family, which show all of its wordings

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def wording_check(families: Sequence[Family]) -> Callable[[Task, str], bool]:
    """The check of a domain with these families."""
    held_out = [family for family in families if family.role == "held_out"]

    @cache
    def kept_apart() -> frozenset[str]:
        made = (family.make(seed) for family in held_out for seed in range(SEEDS))
        return frozenset(_bare(task.prompt) for task in made)

    def may_stand(task: Task, text: str) -> bool:
        same = Counter(_NUMBER.findall(text)) == Counter(_NUMBER.findall(task.prompt))
        told_once = len(text) <= LONGEST and "\n" not in text
        other_words = _bare(text) not in kept_apart() | {_bare(task.prompt)}
        return same and told_once and other_words

    return may_stand


def _bare(text: str) -> str:
    """Its words alone, numbers masked."""
    masked = _NUMBER.sub("#", text.casefold())
    return " ".join(re.findall(r"[a-z#]+", masked))
