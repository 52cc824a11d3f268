"""Whether a teacher's wording of a task may stand beside the task's own.

Two things are certain from the text alone: it holds the same numbers, and it does not say what a
wording of a held-out family says, which nothing may be trained on. That it asks the same is tried
by answering it.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from engine.types import Family, Task

LONGEST = 300  # characters
SEEDS = 200  # tasks of each held-out family, which show all of its wordings

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WRITTEN = re.compile(r"\d[\da-z]*(?:\.\d+)?")  # in any base, in small letters
_BRACKETS = re.compile(r"\([^()]*\)")


def wording_check(families: Sequence[Family]) -> Callable[[Task, str], bool]:
    """The check of a domain with these families."""
    held_out = [family for family in families if family.role == "held_out"]

    @cache
    def kept_apart() -> frozenset[tuple[str, ...]]:
        made = (family.make(seed) for family in held_out for seed in range(SEEDS))
        return frozenset(_words(_BRACKETS.sub("", task.prompt)) for task in made)

    def may_stand(task: Task, text: str) -> bool:
        same = Counter(_NUMBER.findall(text)) == Counter(_NUMBER.findall(task.prompt))
        told_once = len(text) <= LONGEST and "\n" not in text
        words = _words(text)
        held_out_words = any(_says(words, kept) for kept in kept_apart())
        return same and told_once and words != _words(task.prompt) and not held_out_words

    return may_stand


def _says(words: tuple[str, ...], kept: tuple[str, ...]) -> bool:
    """Whether all words of `kept` are among these, in their order."""
    left = iter(words)
    return all(word in left for word in kept)


def _words(text: str) -> tuple[str, ...]:
    """Its words alone, numbers masked."""
    return tuple(re.findall(r"[a-z#]+", _WRITTEN.sub("#", text.casefold())))
