"""On which tasks a training by hand is measured: a domain's fresh ones, or a fixed suite's."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from data.job_places import ROWS
from engine.config import chosen_families
from engine.draws import spread
from engine.errors import DrawExhausted, StepFailed
from engine.facts import JobFacts, Tools
from engine.splits import check_room, draw
from engine.types import AnyVerifier, Domain, Harness, Suite, Task
from engine.words import plain_text

SPLIT = "dev"  # whose tasks a domain gives; their seeds are of this job alone


@dataclass(kw_only=True, slots=True, frozen=True)
class Measured:
    """Tasks with their way to ask and Verifier; `met` tasks were left out, which the rows ask."""

    name: str
    split: str
    tasks: tuple[Task, ...]
    harness: Harness
    verifier: AnyVerifier
    met: int


def suite_of(job: JobFacts, tools: Tools) -> Measured | None:
    """What the job wants to be measured on, None when it does not; the same at every asking.

    DrawExhausted when its families have too few tasks, StepFailed when the rows ask most of a
    fixed suite, SandboxMissing when code cannot be run.
    """
    asked = job.spec["evaluate"]
    if asked is None:
        return None
    library = tools.library
    if asked["suite"] in library.domains:
        found = _of_domain(job, library.domains[asked["suite"]], asked, tools)
    elif asked["suite"] == library.guard.name:
        found = _of_suite(library.guard, "guard", asked, tools)
    elif asked["suite"] in library.external:
        found = _of_suite(library.external[asked["suite"]](), "external", asked, tools)
    else:
        raise StepFailed(f"there is no suite {asked['suite']} here any more")
    tools.verdicts.isolation(found.verifier)
    return found


def _of_domain(job: JobFacts, domain: Domain, asked: dict[str, Any], tools: Tools) -> Measured:
    """Fresh tasks, none of which is a question of the rows, in these or other words."""
    families = chosen_families(domain, asked.get("families"), "train")
    counts = spread(asked["n"], families)
    met: set[str] = set()
    wanted = _unasked(_questions(tools), domain, met)
    tasks: list[Task] = []
    for family in families:
        check_room(SPLIT, family, counts[family.id])
        try:
            drawn, _ = draw(
                job.secret, job.secret, SPLIT, family, 0, counts[family.id], wanted=wanted
            )
        except DrawExhausted as error:
            raise DrawExhausted(
                f"{error}; {len(met)} tasks, which the rows ask, were left out"
            ) from None
        tasks += [one.task for one in drawn]
    return Measured(
        name=domain.name,
        split=SPLIT,
        tasks=tuple(tasks),
        harness=_harness(domain, asked),
        verifier=domain.verifier,
        met=len(met),
    )


def _unasked(questions: list[str], domain: Domain, met: set[str]) -> Callable[[Task], bool]:
    """Whether no question asks a task: not its text, nor its numbers. Keys of others go to `met`."""
    texts = {plain_text(text) for text in questions}
    # Where code is asked, few numbers stand in a prompt, and they tell no task from another.
    numbers = set() if domain.needs_sandbox else {_numbers(text) for text in questions} - {()}

    def wanted(task: Task) -> bool:
        if plain_text(task.prompt) in texts or _numbers(task.prompt) in numbers:
            met.add(task.canonical_key)
        return task.canonical_key not in met

    return wanted


def _of_suite(suite: Suite, split: str, asked: dict[str, Any], tools: Tools) -> Measured:
    """As many tasks of a fixed list as are asked for, evenly spaced over those that no row asks.

    StepFailed when half of them or more cannot be had, as they would not stand for the suite.
    """
    known = {_words(text) for text in _questions(tools)}
    left = [task for task in suite.tasks if _words(task.prompt) not in known]
    met = len(suite.tasks) - len(left)
    planned = min(asked["n"], len(suite.tasks))
    if met and 2 * len(left) <= planned:
        raise StepFailed(
            f"the rows ask {met} of the {len(suite.tasks)} tasks of {suite.name}, which leaves too "
            "few to measure on: leave them out of the rows, or evaluate on another suite"
        )
    count = min(planned, len(left))
    return Measured(
        name=suite.name,
        split=split,
        tasks=tuple(left[at * len(left) // count] for at in range(count)),
        harness=_harness(suite, asked),
        verifier=suite.verifier,
        met=met,
    )


def _harness(source: Domain | Suite, asked: dict[str, Any]) -> Harness:
    return Harness(system=source.system, max_tokens=asked.get("max_tokens", source.max_tokens))


def _questions(tools: Tools) -> list[str]:
    """Everything that a user says in the rows."""
    lines = (tools.folder / ROWS).read_text(encoding="utf-8").splitlines()
    said = [message for line in lines for message in json.loads(line)["messages"]]
    return [one["content"] for one in said if one["role"] == "user"]


def _numbers(text: str) -> tuple[str, ...]:
    """The numbers of a text, in no order."""
    return tuple(sorted(re.findall(r"\d+(?:\.\d+)?", text)))


def _words(text: str) -> str:
    """The words of a text, without their case and marks."""
    return " ".join(re.findall(r"\w+", text.casefold()))
