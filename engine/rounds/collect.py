"""Collect: new tasks as planned, answered by the student, with help only where it has none right."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from sqlmodel import Session

from data import events
from data.files import write_durable
from engine.answers import Graded, answer_tasks, ask_all, plain
from engine.draws import draw_fresh, plain_draws, read_task, record_draws, record_tasks
from engine.errors import DrawExhausted, StepFailed
from engine.evaluations import Scored, record_evaluation
from engine.facts import RunFacts, Tools, derived_seed
from engine.identity import protocol
from engine.rewordings import reword
from engine.splits import Drawn
from engine.teacher import teach
from engine.types import Ask, Family, Harness, Task
from engine.versions import best_version, describe, model_of

NAME = "collect"
USES_DEVICE = True
STUDENT_TEMPERATURE = 0.8
FIRST_TASKS = 48  # none right in so many: with 95 % confidence the student has under 6 %
REPLAY_TEMPERATURE = 0.7


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """Draw the planned tasks from the train split, difficulty by difficulty."""
    drawn: list[Drawn] = []
    following = {}
    for family_id, planned in past["plan"]["plan"]["families"].items():
        family = next(f for f in run.config.families if f.id == family_id)
        found, following[family_id] = _draw_planned(session, run, family, planned)
        drawn += found
    return {
        "tasks": plain_draws(drawn),
        "following": following,
        "version": describe(best_version(session, run.id)),
        "k": run.config.limits.collect_k,
    }


def _draw_planned(
    session: Session, run: RunFacts, family: Family, planned: dict[str, Any]
) -> tuple[list[Drawn], int]:
    """Tasks in the planned mix; what a rare difficulty cannot give, the others make up.

    Without a mix, since no difficulty of the family is known, they come as they are drawn.
    """
    total, left = planned["tasks"], dict(planned["strata"])
    if not left:
        return draw_fresh(session, run, "train", family, total)

    def wanted(task: Task) -> bool:
        if left.get(task.stratum, 0) <= 0:
            return False
        left[task.stratum] -= 1
        return True

    try:
        return draw_fresh(session, run, "train", family, total, wanted)
    except DrawExhausted:
        return draw_fresh(session, run, "train", family, total)


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Sample the student k times a task, then the teacher where none is right; replay too."""
    started = time.monotonic()
    tasks = [read_task(one["task"]) for one in work["tasks"]]
    graded = _sampled(tasks, work, run, tools)
    right = {one.task for one in graded if one.score == 1}
    missing = [task for task in tasks if task.id not in right]
    lesson = teach(missing, run, tools)
    reworded = reword([task for task in missing if task.id in lesson.by_teacher], run, tools)
    if not run.dry:
        _write_replay(run, tools)
    return {
        "graded": plain(graded),
        "helped": lesson.helped,
        "reworded": reworded,
        "lesson": lesson.told if lesson.answered or lesson.note else None,
        "engine": tools.student.name,
        "isolation": tools.verdicts.isolation(run.domain.verifier),
        "seconds": time.monotonic() - started,
    }


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write tasks, samples, and the help given where the student had none right."""
    record_tasks(session, run, "train", work["tasks"], round_)
    record_draws(session, run.id, "train", work["following"])
    ids = list(dict.fromkeys(one["task"] for one in result["graded"]))
    harness = _sampling(run.config.harness, work["k"])
    scored = Scored(
        round=round_,
        version=work["version"]["name"],
        version_hash=work["version"]["hash"],
        suite=run.domain.name,
        split="train",
        protocol=protocol(
            ids,
            run.domain.verifier,
            harness,
            result["engine"],
            _seed(run, round_),
            result["isolation"],
        ),
        planned=len(ids),
        seconds=result["seconds"],
    )
    evaluation = record_evaluation(session, run, scored, result["graded"])
    right = sum(1 for one in result["graded"] if one["score"] == 1)
    if result["lesson"]:
        told = f"{run.config.teacher_model} {result['lesson']}"
        events.append(session, run.id, "message", told, role="teacher", tool=NAME)
    return {
        "evaluation": evaluation.id,
        "helped": result["helped"],
        "reworded": result["reworded"],
        "text": f"{len(result['graded'])} samples, {right} right, {len(result['helped'])} with help",
    }


def _sampled(tasks: list[Task], work: dict[str, Any], run: RunFacts, tools: Tools) -> list[Graded]:
    """The student's graded samples; a family with none right in its first tasks is not asked on."""
    first, later = _first_of_each_family(tasks)

    def ask(some: list[Task]) -> list[Graded]:
        return answer_tasks(
            tools,
            model_of(tools, work["version"]),
            some,
            _sampling(run.config.harness, work["k"]),
            run.domain.verifier,
            label="samples",
            seed=_seed(run, tools.round),
        )

    graded = ask(first)
    able = {one.family for one in graded if one.score == 1}
    return graded + ask([task for task in later if task.family in able])


def _first_of_each_family(tasks: list[Task]) -> tuple[list[Task], list[Task]]:
    """The first tasks of every family, and all others."""
    seen: Counter[str] = Counter()
    first: list[Task] = []
    later: list[Task] = []
    for task in tasks:
        seen[task.family] += 1
        (first if seen[task.family] <= FIRST_TASKS else later).append(task)
    return first, later


def replay_file(folder: Path) -> Path:
    """Where a run keeps the base model's own answers to general prompts."""
    return folder / "replay.jsonl"


def _seed(run: RunFacts, round_: int) -> int:
    return derived_seed(run.secret, f"collect|{round_}")


def _sampling(harness: Harness, k: int) -> Harness:
    return Harness(
        system=harness.system,
        max_tokens=harness.max_tokens,
        temperature=STUDENT_TEMPERATURE,
        attempts=k,
    )


def _write_replay(run: RunFacts, tools: Tools) -> None:
    """Once a run: the untouched base's answers to general prompts, as training rows."""
    file = replay_file(tools.folder)
    if file.exists():
        return
    asks = [_replay_ask(run, tools, number) for number in range(len(tools.library.replay_prompts))]
    base = tools.model(run.base_model)
    answers = ask_all(tools, base, asks, "replay answers of the base model")
    rows = [
        {"messages": ask.messages, "completion": answer.text, "ends": answer.finish == "stop"}
        for ask, answer in ((ask, answers[ask.key]) for ask in asks)
        if answer.text
    ]
    if not rows:
        raise StepFailed("the base model answered no general prompt, so there is nothing to replay")
    write_durable(file, "\n".join(json.dumps(row) for row in rows).encode())


def _replay_ask(run: RunFacts, tools: Tools, number: int) -> Ask:
    library = tools.library
    prompt = library.replay_prompts[number]
    system = library.replay_systems[number % len(library.replay_systems)]
    return Ask(
        key=f"replay-{number}",
        messages=[{"role": "system", "content": system}, {"role": "user", "content": prompt}],
        max_tokens=library.replay_tokens,
        temperature=REPLAY_TEMPERATURE,
        seed=derived_seed(run.secret, f"replay|{number}"),
        family="replay",
        worked=prompt if tools.student.simulated else None,
    )
