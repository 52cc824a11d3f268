"""The Verifier `human-eval-v1`: a completed function passes the suite's own test beside it.

The test runs in the sandbox with the answer, which could look at it or end it early, so this
Verifier measures; it is no ground for training or for a gate.

An answer is a whole function or the rest of one, alone or in one fenced block. `checker` is
{"kind": "check", "prompt": CODE, "entry_point": NAME, "test": CODE that defines `check`}.
"""

import re
from pathlib import Path
from random import Random

from engine.types import CodeVerifier, Exam, Task, Verdict
from recipes.verifiers import code_cases
from recipes.verifiers.code_cases import LONGEST, code_in


def pose(task: Task, text: str, rng: Random) -> Exam | Verdict:
    """The prompt with what completes it, and the test as the check that runs beside."""
    try:
        prompt, entry, test = (str(task.checker[key]) for key in ("prompt", "entry_point", "test"))
    except KeyError:
        return Verdict(score=None, reason="bad_checker")
    if not isinstance(text, str) or len(text) > LONGEST:
        return Verdict(score=0.0, reason="too_long" if isinstance(text, str) else "not_text")
    code, reason = code_in(text)
    if code is None:
        return Verdict(score=0.0, reason=reason)
    return Exam(
        code=_completed(prompt, entry, code),
        entry=entry,
        expected=(True,),
        check=f"{test}\n\ncheck({entry})\n",
    )


HUMAN_EVAL = CodeVerifier(name="human-eval-v1", pose=pose, beside=(Path(code_cases.__file__),))


def _completed(prompt: str, entry: str, code: str) -> str:
    """The rest of the prompt's function goes behind it; so does a whole one, which replaces it."""
    whole = re.search(rf"^def {re.escape(entry)}\b", code, re.MULTILINE)
    return f"{prompt}\n\n{code}\n" if whole else f"{prompt}{code}\n"
