"""Fresh tasks for a phase: drawn in order, each index of a split used once in a run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlmodel import Session, select

from data.tables import Draw
from data.tables import Task as TaskRow
from engine.errors import StepFailed
from engine.facts import RunFacts
from engine.splits import Drawn, draw, item_seed
from engine.types import Family, Task, as_dict


def spread(total: int, families: Sequence[Family]) -> dict[str, int]:
    """`total` divided evenly over families, the first ones taking what is left."""
    each, rest = divmod(total, len(families)) if families else (0, 0)
    return {family.id: each + (i < rest) for i, family in enumerate(families)}


def draw_fresh(
    session: Session,
    run: RunFacts,
    split: str,
    family: Family,
    count: int,
    wanted: Callable[[Task], bool] | None = None,
) -> tuple[list[Drawn], int]:
    """`count` tasks of a family that this run has not used in the split, and the next index."""
    first = next_index(session, run.id, split, family.id)
    seen = used_keys(session, run.id, split, family.id)
    return draw(run.secret, run.secret, split, family, first, count, wanted=wanted, seen=seen)


def next_index(session: Session, run: str, split: str, family: str) -> int:
    """The first index of a (split, family) that the run has not used."""
    found = session.get(Draw, (run, split, family))
    return 0 if found is None else found.next_index


def used_keys(session: Session, run: str, split: str, family: str) -> set[str]:
    """Canonical keys that the run has used in a (split, family)."""
    query = select(TaskRow.canonical_key).where(
        TaskRow.run == run, TaskRow.split == split, TaskRow.family == family
    )
    return set(session.exec(query))


def record_draws(session: Session, run: str, split: str, following: Mapping[str, int]) -> None:
    """Write where each family's next draw begins."""
    for family, index in following.items():
        row = session.get(Draw, (run, split, family)) or Draw(
            run=run, split=split, family=family, next_index=0
        )
        row.next_index = max(row.next_index, index)
        session.add(row)


def record_tasks(
    session: Session, run: RunFacts, split: str, drawn: Sequence[Mapping[str, Any]], round_: int
) -> None:
    """Write drawn tasks, so that people can read them; each is {"index": i, "task": {...}}."""
    for one in drawn:
        task = read_task(one["task"])
        row = TaskRow(
            id=task.id,
            project_id=run.project_id,
            run=run.id,
            split=split,
            family=task.family,
            family_version=task.version,
            number=one["index"],
            round=round_,
            prompt=task.prompt,
            stratum=task.stratum,
            canonical_key=task.canonical_key,
            template_id=task.template_id,
            worked=task.worked,
        )
        session.add(row)


def plain_draws(drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
    """Drawn tasks as plain dictionaries for a work description."""
    return [{"index": one.index, "task": as_dict(one.task)} for one in drawn]


def read_task(fields: Mapping[str, Any]) -> Task:
    """A task from its plain dictionary."""
    return Task(**{**fields, "shows": tuple(fields.get("shows", ()))})


def rebuild(run: RunFacts, split: str, family_id: str, number: int, task_id: str) -> Task:
    """A stored task with its checker, made again from its seed, so that checkers are not stored.

    StepFailed when the family makes another task than when the run began.
    """
    family = next(f for f in run.config.families if f.id == family_id)
    task = family.make(item_seed(run.secret, split, family.id, family.version, number))
    if task.id != task_id:
        raise StepFailed(f"{family_id} makes other tasks than when the run began: start a new run")
    return task
