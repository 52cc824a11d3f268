"""Answers of a version to tasks: asked once, kept on disk as they come, scored by the Verifier."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data import crash
from engine.facts import Tools
from engine.identity import content_hash
from engine.types import Answer, AnyVerifier, Ask, Harness, ModelRef, Task, Verdict, as_dict


@dataclass(kw_only=True, slots=True, frozen=True)
class Graded:
    """One attempt at one task with its verdict; `score` None is no verdict."""

    task: str
    family: str
    stratum: str
    attempt: int
    text: str | None
    parsed: str | None
    score: float | None
    reason: str
    tokens_in: int
    tokens_out: int


def answer_tasks(
    tools: Tools,
    model: ModelRef,
    tasks: Sequence[Task],
    harness: Harness,
    verifier: AnyVerifier,
    *,
    label: str,
    seed: int,
) -> list[Graded]:
    """Ask the model every task `harness.attempts` times and grade each answer.

    Answers that an earlier, interrupted attempt left on disk are not asked again.
    `label` says in the live view what is being answered.
    """
    asks = [
        _ask(task, attempt, harness, seed, tools.student.simulated)
        for task in tasks
        for attempt in range(harness.attempts)
    ]
    answers = ask_all(tools, model, asks, label)
    asked = [(task, attempt) for task in tasks for attempt in range(harness.attempts)]
    return _grade_all(tools, [(*one, answers[_key(*one)]) for one in asked], verifier)


def measure(
    tools: Tools,
    model: ModelRef,
    tasks: Sequence[Task],
    harness: Harness,
    verifier: AnyVerifier,
    *,
    label: str,
    seed: int,
) -> dict[str, Any]:
    """What `answer_tasks` finds as a plain result, with how long it took, by which engine, and how
    isolated its grading was."""
    started = time.monotonic()
    graded = answer_tasks(tools, model, tasks, harness, verifier, label=label, seed=seed)
    return {
        "graded": plain(graded),
        "seconds": time.monotonic() - started,
        "engine": tools.student.name,
        "isolation": tools.verdicts.isolation(verifier),
    }


def _ask(task: Task, attempt: int, harness: Harness, seed: int, simulated: bool) -> Ask:
    return Ask(
        key=_key(task, attempt),
        messages=harness.messages(task.prompt),
        max_tokens=harness.max_tokens,
        temperature=harness.temperature,
        seed=seed + attempt,
        family=task.family,
        worked=task.worked if simulated else None,
    )


def _key(task: Task, attempt: int) -> str:
    return f"{task.id}#{attempt}"


def ask_all(tools: Tools, model: ModelRef, asks: list[Ask], label: str) -> dict[str, Answer]:
    """Answers by key; what is on disk already is read, the rest is asked and appended."""
    name = content_hash([tools.student.name, model.identity, [as_dict(ask) for ask in asks]])
    file = AnswerFile(tools.folder / "answers" / f"{tools.round}-{tools.step}-{name}.jsonl")
    answers = file.read()
    total = len(asks)

    def take(batch: list[Answer]) -> None:
        crash.point("before_answers")
        file.append(batch)
        answers.update({answer.key: answer for answer in batch})
        tools.progress(len(answers), total, label)
        crash.point("after_answers")

    tools.progress(len(answers), total, label)
    missing = [ask for ask in asks if ask.key not in answers]
    if missing:
        tools.student.generate(model, missing, take, tools.stop)
    return answers


def _grade_all(
    tools: Tools, answers: list[tuple[Task, int, Answer]], verifier: AnyVerifier
) -> list[Graded]:
    """Answers with their verdicts; where nothing came back there is none."""
    told = [(task, answer.text) for task, _, answer in answers if answer.text is not None]
    verdicts = iter(tools.verdicts.of(verifier, told, tools.stop))
    return [
        _graded(task, attempt, answer, _no_answer(answer) or next(verdicts))
        for task, attempt, answer in answers
    ]


def _no_answer(answer: Answer) -> Verdict | None:
    if answer.text is not None:
        return None
    return Verdict(score=None, reason=answer.error or "no answer")


def _graded(task: Task, attempt: int, answer: Answer, verdict: Verdict) -> Graded:
    return Graded(
        task=task.id,
        family=task.family,
        stratum=task.stratum,
        attempt=attempt,
        text=answer.text,
        parsed=verdict.parsed,
        score=verdict.score,
        reason=verdict.reason,
        tokens_in=answer.tokens_in,
        tokens_out=answer.tokens_out,
    )


class AnswerFile:
    """Answers as JSON lines, synced batch by batch; a line cut short by a crash is ignored.

    It holds keys and answers, never a prompt, since sealed tasks pass through here too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        whole = path.read_bytes().rfind(b"\n") + 1
        os.truncate(path, whole)

    def read(self) -> dict[str, Answer]:
        """The answers that are there, by key."""
        lines = self.path.read_text().splitlines()
        answers = [Answer(**json.loads(line)) for line in lines]
        return {answer.key: answer for answer in answers}

    def append(self, batch: Sequence[Answer]) -> None:
        """Add a batch and wait until it is on disk."""
        text = "".join(json.dumps(as_dict(answer)) + "\n" for answer in batch)
        with open(self.path, "a") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def plain(graded: Sequence[Graded]) -> list[dict[str, Any]]:
    """Graded answers as plain dictionaries."""
    return [as_dict(one) for one in graded]
