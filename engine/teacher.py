"""The teacher: a right answer where the student has none, a few asked at a time.

What it says counts once the Verifier finds it right; the generator's worked answer stands in
everywhere else, so that a teacher who fails or may not be asked on ends no round.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from engine.errors import GatewayFailed, Interrupted
from engine.facts import RunFacts, Tools
from engine.types import Task

AT_ONCE = 8
BATCH = 24  # calls between two looks at whether to stop


@dataclass(kw_only=True, slots=True)
class Lesson:
    """Help by task id, each {"text", "source", "model"}; `note` says why the teacher was left."""

    helped: dict[str, dict[str, Any]] = field(default_factory=dict)
    answered: int = 0
    right: int = 0
    note: str | None = None

    @property
    def by_teacher(self) -> set[str]:
        """The tasks that the teacher itself had right."""
        return {task for task, one in self.helped.items() if one["source"] == "teacher"}

    @property
    def told(self) -> str:
        """The lesson in a line."""
        worked = len(self.helped) - self.right
        text = f"answered {self.answered} tasks, {self.right} right"
        text += f"; {worked} worked answers of the generator" if worked else ""
        return f"{text}; {self.note}" if self.note else text


def teach(missing: Sequence[Task], run: RunFacts, tools: Tools) -> Lesson:
    """Help with every task; CapReached when the run's money is used up, with nothing lost of what
    was answered: it is recorded with its call."""
    lesson = Lesson()
    if run.config.teacher_model is not None:
        _ask_teacher(lesson, missing, run, tools)
    for task in missing:
        worked = {"text": task.worked, "source": "generator", "model": task.version}
        lesson.helped.setdefault(task.id, worked)
    return lesson


def _ask_teacher(lesson: Lesson, missing: Sequence[Task], run: RunFacts, tools: Tools) -> None:
    def ask(task: Task) -> tuple[str | None, str | None]:
        try:
            return _answer(task, run, tools), None
        except GatewayFailed as error:
            return None, str(error)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for start in range(0, len(missing), BATCH):
            if tools.stop():
                raise Interrupted("stopped between two batches of the teacher")
            batch = missing[start : start + BATCH]
            said = list(pool.map(ask, batch))
            answers = zip(batch, (text for text, _ in said), strict=True)
            _judge(lesson, [(task, text) for task, text in answers if text is not None], run, tools)
            tools.progress(start + len(batch), len(missing), "answers of the teacher")
            failures = [error for _, error in said if error is not None]
            if len(failures) == len(batch):  # nothing speaks for paying for more of these
                lesson.note = f"the teacher was asked no further: {failures[-1]}"
                return


def _judge(
    lesson: Lesson, answers: Sequence[tuple[Task, str]], run: RunFacts, tools: Tools
) -> None:
    """Only what the Verifier finds right becomes help."""
    lesson.answered += len(answers)
    verdicts = tools.verdicts.of(run.domain.verifier, answers, tools.stop)
    for (task, text), verdict in zip(answers, verdicts, strict=True):
        if verdict.score == 1:
            lesson.right += 1
            model = run.config.teacher_model
            lesson.helped[task.id] = {"text": text, "source": "teacher", "model": model}


def _answer(task: Task, run: RunFacts, tools: Tools) -> str | None:
    harness = run.config.harness
    answer = tools.gateway.ask(
        tools,
        run.config.teacher_model,
        "teacher",
        task.id,
        harness.messages(task.prompt),
        harness.max_tokens,
        worked=task.worked,
    )
    text: str | None = answer.text
    return text
