"""The real worker on a bad day: `python -m tests.worker.hard_times KIND --fd N`.

Kinds: `memory` and `killed` fail while more than two rows are computed at once, `hang` stops moving
in the second step of its first training, `crash` aborts.
"""

import os
import signal
import sys
import time
from typing import Any

KIND = sys.argv.pop(1)
MARK = "HARD_TIMES_SEEN"


def main() -> None:
    from engine import worker
    from engine.models import gradients

    real = gradients.accumulate
    steps: list[int] = []

    def accumulate(wrapped: Any, batch: Any, part_rows: int, *rest: Any) -> float:
        import torch

        steps.append(part_rows)
        if KIND == "memory" and part_rows > 2:
            raise torch.OutOfMemoryError("tried to allocate 20.00 GiB")
        if KIND == "killed" and part_rows > 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if KIND == "crash":
            os.abort()
        if KIND == "hang" and len(steps) == 2 and not os.path.exists(seen_file()):
            open(seen_file(), "w").close()
            time.sleep(60)
        return real(wrapped, batch, part_rows, *rest)

    gradients.accumulate = accumulate  # type: ignore[assignment]
    worker.main()


def seen_file() -> str:
    """Says that the hang has happened: the worker that follows goes through."""
    return os.path.join(os.environ["TMPDIR"], MARK)


if __name__ == "__main__":
    main()
