"""Tasks that the student had wrong, in the teacher's own words: new wordings around a failure.

A wording is kept when the domain finds nothing against its text, and the teacher, asked it afresh
as any task is asked, gives an answer that the Verifier of the old task finds right.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from engine.errors import GatewayFailed, Interrupted
from engine.facts import RunFacts, Tools
from engine.types import Message, Task

MOST = 40  # tasks a round
AT_ONCE = 8
TOKENS = 160
ASK = (
    "Say the task below in other words, in one line. Keep every number as it is, ask for the same "
    "result in the same form, and do not solve it. Reply with the new wording alone."
)


def reword(tasks: Sequence[Task], run: RunFacts, tools: Tools) -> list[dict[str, Any]]:
    """New wordings of these tasks, each {"task", "prompt", "text", "model"}; few, if any.

    A teacher that fails or may not be asked on ends no round; CapReached when the run's money is
    used up.
    """
    if run.domain.may_stand is None or run.config.teacher_model is None:
        return []
    found: list[dict[str, Any]] = []
    chosen = _spread(tasks)

    def ask(task: Task) -> tuple[Task, str, str | None] | None:
        return _in_other_words(task, run, tools)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for start in range(0, len(chosen), AT_ONCE):
            if tools.stop():
                raise Interrupted("stopped between two batches of the teacher")
            try:
                said = list(pool.map(ask, chosen[start : start + AT_ONCE]))
            except GatewayFailed:
                return found
            found += _right(said, run, tools)
    return found


def _spread(tasks: Sequence[Task]) -> list[Task]:
    """At most so many, the families in turn."""
    turns: dict[str, int] = {}
    ranked = []
    for number, task in enumerate(tasks):
        turns[task.family] = turns.get(task.family, 0) + 1
        ranked.append((turns[task.family], number))
    return [tasks[number] for _, number in sorted(ranked)[:MOST]]


def _in_other_words(task: Task, run: RunFacts, tools: Tools) -> tuple[Task, str, str | None] | None:
    """The task, its new wording, and the teacher's answer to that; None for a wording that may
    not stand."""
    order = [{"role": "system", "content": ASK}, {"role": "user", "content": task.prompt}]
    words = _ask(run, tools, f"{task.id}-words", order, TOKENS, f"Work out: {task.prompt}")
    words = (words or "").strip()
    assert run.domain.may_stand is not None
    if not words or not run.domain.may_stand(task, words):
        return None
    harness = run.config.harness
    answer = _ask(
        run, tools, f"{task.id}-again", harness.messages(words), harness.max_tokens, task.worked
    )
    return task, words, answer


def _ask(
    run: RunFacts, tools: Tools, key: str, messages: list[Message], tokens: int, worked: str
) -> str | None:
    model = run.config.teacher_model
    answer = tools.gateway.ask(tools, model, "teacher", key, messages, tokens, worked=worked)
    text: str | None = answer.text
    return text


def _right(
    said: Sequence[tuple[Task, str, str | None] | None], run: RunFacts, tools: Tools
) -> list[dict[str, Any]]:
    asked = [(task, words, text) for one in said if one for task, words, text in [one] if text]
    posed = [(replace(task, prompt=words), text) for task, words, text in asked]
    verdicts = tools.verdicts.of(run.domain.verifier, posed, tools.stop)
    model = run.config.teacher_model
    return [
        {"task": task.id, "prompt": words, "text": text, "model": model}
        for (task, words, text), verdict in zip(asked, verdicts, strict=True)
        if verdict.score == 1
    ]
