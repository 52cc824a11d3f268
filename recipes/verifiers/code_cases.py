"""The Verifier `code-cases-v1`: code is right when it returns what it should on unseen inputs.

A code Verifier is one file like this one: a pure function `pose(task, answer, rng)` that runs
nothing, and a CodeVerifier that names it. It finds the code in the answer and says what to call it
with. The sandbox gets the code and the inputs; what each call must return stays outside, where the
results are compared by type and value. Inputs are drawn from `rng`, which is seeded from the run's
secret and the answer itself, so nobody could know them while writing it.

An answer is Python alone, or text with exactly one fenced block of it. `checker` is
    {"kind": SHAPE, "moves": [[STEP, CONSTANT], ...], "also": [INPUT, ...]}   code is asked for
    {"kind": "printed", "value": TEXT}       the one line that a shown program prints

Reasons beside those of the sandbox: empty, several_blocks, open_block, too_long, not_text, and for
a line that is asked for right, wrong_value, several_lines; bad_checker comes with no score at all.
"""

from pathlib import Path
from random import Random
from typing import Any

import recipes.code
from engine.types import CodeVerifier, Exam, Task, Verdict
from recipes.code import SHAPES

LONGEST = 20_000  # code points of the raw answer
INPUTS = 24  # that an answer is tried on
FENCE = "```"


def pose(task: Task, text: str, rng: Random) -> Exam | Verdict:
    """What to run for an answer, or the verdict where there is nothing to run."""
    if not isinstance(text, str):
        return Verdict(score=0.0, reason="not_text")
    if len(text) > LONGEST:
        return Verdict(score=0.0, reason="too_long")
    if task.checker.get("kind") == "printed":
        return printed(text, task.checker.get("value"))
    code, reason = code_in(text)
    if code is None:
        return Verdict(score=0.0, reason=reason)
    try:
        shape = SHAPES[task.checker["kind"]]
        moves = shape.read(task.checker["moves"])
        inputs = [*task.checker["also"], *shape.inputs(rng, moves, INPUTS)]
        expected = tuple(shape.run(moves, given) for given in inputs)
    except (KeyError, TypeError, ValueError):
        return Verdict(score=None, reason="bad_checker")
    return Exam(
        code=code + shape.driver,
        entry=shape.entry,
        inputs=tuple((given,) for given in inputs),
        expected=expected,
    )


CODE_CASES = CodeVerifier(
    name="code-cases-v1",
    pose=pose,
    beside=tuple(Path(recipes.code.__file__).parent.glob("*.py")),
)


def code_in(text: str) -> tuple[str | None, str]:
    """The code of an answer, or None with the reason why there is none."""
    lines = text.replace("\r\n", "\n").removeprefix("\ufeff").split("\n")
    fences = [n for n, line in enumerate(lines) if line.lstrip(" \t").startswith(FENCE)]
    if len(fences) > 2:
        return None, "several_blocks"
    if len(fences) == 1:
        return None, "open_block"
    code = "\n".join(lines[fences[0] + 1 : fences[1]] if fences else lines)
    return (code, "") if code.strip() else (None, "empty")


def printed(text: str, value: Any) -> Verdict:
    """Whether the answer is exactly one line with that text."""
    if not isinstance(value, str):
        return Verdict(score=None, reason="bad_checker")
    lines = [line.strip(" \t\r") for line in text.split("\n")]
    lines = [line for line in lines if line]
    if len(lines) != 1:
        return Verdict(score=0.0, reason="several_lines" if lines else "empty")
    right = lines[0] == value
    return Verdict(score=float(right), reason="right" if right else "wrong_value", parsed=lines[0])
