"""A case file for a Verifier: answers as JSON lines, each with what should be said of it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.types import AnyVerifier, Task, Verdict
from engine.verdicts import Verdicts

REPLY = "reply"
EXPECTED = {"score": "score", "reason": "reason", "names": "parsed"}  # key -> field of a verdict
NOT_PASSED = {*EXPECTED, "why", "id", REPLY}  # what a Verifier must not see in its checker
SHOWN = 60  # characters of a reply


@dataclass(kw_only=True, slots=True, frozen=True)
class FileCase:
    """One line of a case file: a task with its answer, and what is expected of the verdict."""

    line: int
    task: Task
    reply: Any
    expected: dict[str, Any]


def disagreements(
    verifier: AnyVerifier, cases: Sequence[FileCase], verdicts: Verdicts
) -> Iterator[str]:
    """A line of text for every case where the Verifier says something else than the file."""
    found = verdicts.of(verifier, [(case.task, case.reply) for case in cases])
    for case, verdict in zip(cases, found, strict=True):
        said = _said(verdict, case.expected)
        if said != case.expected:
            reply = _shortened(repr(case.reply))
            yield f"line {case.line}: expected {_told(case.expected)}; got {_full(verdict)}: {reply}"


def read_cases(path: Path) -> list[FileCase]:
    """The cases of a file; a ValueError names the line that is not one.

    A line is a JSON object: `reply` is the answer; `score`, `reason` and `names` are expected of
    the verdict (`names` of its `parsed`), those that are there; `why` and `id` are for people;
    every other key goes to the Verifier, as the task's checker.
    """
    lines = enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
    cases = [_case(path, number, line) for number, line in lines if line.strip()]
    if not cases:
        raise ValueError(f"{path} has no cases")
    return cases


def _case(path: Path, number: int, line: str) -> FileCase:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: {error}") from None
    if not isinstance(fields, dict) or REPLY not in fields or EXPECTED.keys().isdisjoint(fields):
        keys = f"{REPLY} and at least one of {', '.join(EXPECTED)}"
        raise ValueError(f"{path}, line {number}: a case is an object with {keys}")
    task = Task(
        family="case_file",
        version="1",
        prompt="",
        checker={key: value for key, value in fields.items() if key not in NOT_PASSED},
        worked="",
        canonical_key=f"case|{number}",
        template_id="case",
        stratum="case",
    )
    expected = {key: fields[key] for key in EXPECTED if key in fields}
    return FileCase(line=number, task=task, reply=fields[REPLY], expected=expected)


def _said(verdict: Verdict, expected: dict[str, Any]) -> dict[str, Any]:
    return {key: getattr(verdict, EXPECTED[key]) for key in expected}


def _told(expected: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in expected.items())


def _full(verdict: Verdict) -> str:
    return ", ".join(f"{key} {getattr(verdict, name)}" for key, name in EXPECTED.items())


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
