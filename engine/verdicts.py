"""Verdicts on answers: text is judged at once, code in a warm pool that is opened on first use."""

import hashlib
import hmac
import os
import threading
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from engine.errors import Interrupted, SandboxMissing
from engine.identity import content_hash
from engine.sandbox.docker_engine import DockerEngine, SandboxLost, SandboxUnavailable
from engine.sandbox.judge import judge
from engine.sandbox.pool import OUR_FAULT, STOPPED, Case, Outcome, WarmPool
from engine.types import AnyVerifier, CodeVerifier, Exam, Stop, Task, Verdict, as_dict

SECONDS = 4.0  # that all calls of one answer may take together
BATCH = 16  # cases a container whose outcomes are held at once


class Verdicts:
    """Judges the answers of one run.

    `secret` decides the inputs that code is tried on, `owner` and `run` label the containers.
    An answer that was judged before, under the same Verifier and image, is not run again.
    """

    def __init__(self, secret: bytes, owner: str, run: str = "-", size: int = 0) -> None:
        self._secret, self._owner, self._run = secret, owner, run
        self._size = size or len(os.sched_getaffinity(0))
        self._sandbox: _Sandbox | None = None
        self._opening = threading.Lock()
        self._known: dict[str, Verdict] = {}
        self.cached = 0  # answers that were not run because the same had been

    def of(
        self, verifier: AnyVerifier, answers: Sequence[tuple[Task, str]], stop: Stop = lambda: False
    ) -> list[Verdict]:
        """One verdict for each (task, answer), in order.

        SandboxMissing when no sandbox works here; Interrupted when `stop` says so. A Verifier that
        crashes and a sandbox that is lost give no verdict, with the reason.
        """
        if not isinstance(verifier, CodeVerifier):
            return [_read(verifier.verify, task, text) for task, text in answers]
        posed = [self._pose(verifier, task, text) for task, text in answers]
        exams = [one for one in posed if isinstance(one, Exam)]
        judged = iter(self._judge(verifier, exams, stop) if exams else ())
        return [next(judged) if isinstance(one, Exam) else one for one in posed]

    def one(self, verifier: AnyVerifier, task: Task, text: str) -> Verdict:
        """The verdict on one answer."""
        return self.of(verifier, [(task, text)])[0]

    def isolation(self, verifier: AnyVerifier) -> dict[str, Any] | None:
        """How this Verifier's code is locked up: runtime, engine, image, flags. None for text."""
        return self._open().receipt if isinstance(verifier, CodeVerifier) else None

    def close(self) -> None:
        """End the containers."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _pose(self, verifier: CodeVerifier, task: Task, text: str) -> Exam | Verdict:
        posed: Exam | Verdict = _read(verifier.pose, task, text, self._draws(task, text))
        return posed

    def _draws(self, task: Task, text: str) -> Random:
        """What inputs are drawn from: unknown until there is an answer, then always the same."""
        said = f"inputs|{task.id}|{text}".encode("utf-8", "surrogatepass")
        return Random(hmac.new(self._secret, said, hashlib.sha256).digest())

    def _judge(self, verifier: CodeVerifier, exams: list[Exam], stop: Stop) -> list[Verdict]:
        sandbox = self._open()
        source = verifier.sha256
        keys = [content_hash([source, sandbox.engine.image, as_dict(exam)]) for exam in exams]
        missing = {
            key: exam for key, exam in zip(keys, exams, strict=True) if key not in self._known
        }
        self.cached += len(exams) - len(missing)
        known = self._known | self._run_all(sandbox, missing, stop)
        return [known[key] for key in keys]

    def _run_all(
        self, sandbox: "_Sandbox", exams: Mapping[str, Exam], stop: Stop
    ) -> dict[str, Verdict]:
        """Verdicts by key; those that mean something are kept for the next time."""
        found: dict[str, Verdict] = {}
        keys = list(exams)
        for start in range(0, len(keys), BATCH * self._size):
            batch = keys[start : start + BATCH * self._size]
            outcomes = sandbox.run([_case(exams[key]) for key in batch], stop)
            for key, outcome in zip(batch, outcomes, strict=True):
                if outcome.status == STOPPED:
                    raise Interrupted("stopped while answers were judged")
                found[key] = judge(outcome, exams[key].expected)
                if found[key].score is not None:
                    self._known[key] = found[key]
        return found

    def _open(self) -> "_Sandbox":
        with self._opening:
            if self._sandbox is None:
                self._sandbox = _Sandbox(self._owner, self._run, self._size)
            return self._sandbox


class _Sandbox:
    """One connection to the sandbox engine with its warm pool and receipt."""

    def __init__(self, owner: str, run: str, size: int) -> None:
        try:
            self.engine = DockerEngine(owner)
        except SandboxUnavailable as missing:
            raise SandboxMissing(str(missing)) from None
        self._pool = WarmPool(self.engine, size, run)
        try:
            self.receipt = self._pool.receipt()
        except SandboxLost as lost:
            self.engine.close()
            raise SandboxMissing(str(lost)) from None

    def run(self, cases: Sequence[Case], stop: Stop) -> list[Outcome]:
        """How each case ended. SandboxMissing when cases are lost because the engine is gone."""
        outcomes = self._pool.run_all(cases, stop)
        if any(outcome.status == OUR_FAULT for outcome in outcomes):
            try:
                DockerEngine("-").close()
            except SandboxUnavailable as gone:
                raise SandboxMissing(str(gone)) from None
        return outcomes

    def close(self) -> None:
        self._pool.close()
        self.engine.close()


def why_no_sandbox() -> str | None:
    """Why code cannot be run here, in the sandbox engine's own words; None where it can."""
    try:
        DockerEngine("-").close()
    except SandboxUnavailable as missing:
        return str(missing)
    return None


def _case(exam: Exam) -> Case:
    return Case(
        code=exam.code, entry=exam.entry, inputs=exam.inputs, check=exam.check, seconds=SECONDS
    )


def _read(judged: Any, *given: Any) -> Any:
    """What a Verifier says; one that raises or talks nonsense is at fault, so there is no verdict."""
    try:
        said = judged(*given)
        if not _is_sound(said):
            raise ValueError(f"a Verifier may not say {str(said)[:200]}")
    except Exception as error:  # noqa: BLE001  a recipe's own fault must not end a run
        return Verdict(
            score=None, reason="verifier_crashed", parsed=f"{type(error).__name__}: {error}"
        )
    return said


def _is_sound(said: Any) -> bool:
    """Whether it is a score from 0 to 1 or none, or an exam that an answer could fail."""
    if isinstance(said, Exam):
        calls = 1 if said.check is not None else len(said.inputs)
        return calls == len(said.expected) > 0
    return isinstance(said, Verdict) and (said.score is None or 0.0 <= said.score <= 1.0)
