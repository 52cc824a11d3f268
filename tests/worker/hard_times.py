"""The real worker on a bad day: `python -m tests.worker.hard_times KIND FOLDER --fd N`.

Kinds that come again and again: `memory` and `killed` fail while more than two rows are trained on
at once, `memory` also while more than forty are answered; `small_disk` asks for no spare room. All
others befall the second step of a training, or the second token of answers: `sleep` waits, `spin`
computes without getting anywhere, `stubborn` also ignores the polite signal and has a child of its
own, `crash` aborts and leaves such a child behind. Until it befalls, every beat tells of progress,
so that a busy machine is not taken for a worker that stands still. FOLDER says what they befall by
files in it named `train` and `generate`: it is over when the file holds "once" and it has happened.
`patient` is well, and takes its second step when it has been asked to stop, so that a stop finds it
in training.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KIND, FOLDER = sys.argv.pop(1), Path(sys.argv.pop(1))
befallen: list[str] = []
stop_checks: list[Callable[[], bool]] = []  # of the commands so far


def main() -> None:
    from engine import worker
    from engine.models import checkpoint, generate, gradients

    if KIND == "small_disk":
        checkpoint.SPARE_BYTES = 0
    real = gradients.accumulate
    passes = {"steps": 0, "tokens": 0}
    real_say, real_stop_check = worker.Worker.say, worker.Worker.stop_check

    def say(self: worker.Worker, word: str, **fields: Any) -> None:
        if word == "beat" and not befallen:
            fields["progress"] = time.monotonic_ns()
        real_say(self, word, **fields)

    def accumulate(wrapped: Any, batch: Any, part_rows: int, *rest: Any) -> float:
        import torch

        passes["steps"] += 1
        if KIND == "memory" and part_rows > 2:
            raise torch.OutOfMemoryError("tried to allocate 20.00 GiB")
        if KIND == "killed" and part_rows > 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if passes["steps"] == 2:
            befall("train")
        return real(wrapped, batch, part_rows, *rest)

    real_advance = generate._advance

    def advance(loaded: Any, state: Any) -> None:
        passes["tokens"] += 1
        if KIND == "memory" and len(state.rows) > 40:
            raise MemoryError
        if passes["tokens"] == 2:
            befall("generate")
        real_advance(loaded, state)

    def stop_check(self: worker.Worker, command: dict[str, Any]) -> Callable[[], bool]:
        stop_checks.append(real_stop_check(self, command))
        return stop_checks[-1]

    gradients.accumulate = accumulate  # type: ignore[assignment]
    generate._advance = advance
    worker.Worker.say = say  # type: ignore[method-assign]
    worker.Worker.stop_check = stop_check  # type: ignore[method-assign]
    worker.main()


def befall(work: str) -> None:
    """What the kind says happens to this worker now, if it is to happen in this work."""
    how = FOLDER / work
    if not how.exists():
        return
    if how.read_text() == "once":
        how.unlink()
    if KIND == "patient":
        while not stop_checks[-1]():
            time.sleep(0.02)
        return
    befallen.append(work)
    if KIND in {"stubborn", "crash"}:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(FOLDER / "grandchildren", "a") as note:
            note.write(f"{child.pid}\n")
    if KIND == "crash":
        os.abort()
    if KIND == "stubborn":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while KIND == "spin":
        sum(range(1000))
    time.sleep(600)


if __name__ == "__main__":
    main()
