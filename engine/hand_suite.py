"""On which tasks a training by hand is measured: a domain's fresh ones, or a fixed suite's."""

import json
from dataclasses import dataclass
from typing import Any

from data.job_places import ROWS
from engine.config import chosen_families
from engine.draws import spread
from engine.errors import StepFailed
from engine.facts import JobFacts, Tools
from engine.splits import check_room, draw
from engine.types import AnyVerifier, Domain, Harness, Suite, Task
from engine.words import plain_text

SPLIT = "dev"  # whose tasks a domain gives; their seeds are of this job alone


@dataclass(kw_only=True, slots=True, frozen=True)
class Measured:
    """Tasks with their way to ask and Verifier."""

    name: str
    split: str
    tasks: tuple[Task, ...]
    harness: Harness
    verifier: AnyVerifier


def suite_of(job: JobFacts, tools: Tools) -> Measured | None:
    """What the job wants to be measured on, None when it does not; the same at every asking.

    DrawExhausted when its families have too few tasks, SandboxMissing when code cannot be run.
    """
    asked = job.spec["evaluate"]
    if asked is None:
        return None
    library = tools.library
    if asked["suite"] in library.domains:
        found = _of_domain(job, library.domains[asked["suite"]], asked, tools)
    elif asked["suite"] == library.guard.name:
        found = _of_suite(library.guard, "guard", asked)
    elif asked["suite"] in library.external:
        found = _of_suite(library.external[asked["suite"]](), "external", asked)
    else:
        raise StepFailed(f"there is no suite {asked['suite']} here any more")
    tools.verdicts.isolation(found.verifier)
    return found


def _of_domain(job: JobFacts, domain: Domain, asked: dict[str, Any], tools: Tools) -> Measured:
    """Fresh tasks, none of which is a question of the rows."""
    families = chosen_families(domain, asked.get("families"), "train")
    counts = spread(asked["n"], families)
    known = _questions(tools)
    tasks: list[Task] = []
    for family in families:
        check_room(SPLIT, family, counts[family.id])
        drawn, _ = draw(
            job.secret,
            job.secret,
            SPLIT,
            family,
            0,
            counts[family.id],
            wanted=lambda task: plain_text(task.prompt) not in known,
        )
        tasks += [one.task for one in drawn]
    return Measured(
        name=domain.name,
        split=SPLIT,
        tasks=tuple(tasks),
        harness=_harness(domain, asked),
        verifier=domain.verifier,
    )


def _of_suite(suite: Suite, split: str, asked: dict[str, Any]) -> Measured:
    """As many tasks of a fixed list as are asked for, evenly spaced over it."""
    count = min(asked["n"], len(suite.tasks))
    tasks = tuple(suite.tasks[at * len(suite.tasks) // count] for at in range(count))
    return Measured(
        name=suite.name,
        split=split,
        tasks=tasks,
        harness=_harness(suite, asked),
        verifier=suite.verifier,
    )


def _harness(source: Domain | Suite, asked: dict[str, Any]) -> Harness:
    return Harness(system=source.system, max_tokens=asked.get("max_tokens", source.max_tokens))


def _questions(tools: Tools) -> set[str]:
    """Everything that a user says in the rows, as texts are compared."""
    lines = (tools.folder / ROWS).read_text(encoding="utf-8").splitlines()
    said = [message for line in lines for message in json.loads(line)["messages"]]
    return {plain_text(one["content"]) for one in said if one["role"] == "user"}
