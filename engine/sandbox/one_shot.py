"""One command in a container of its own: started, watched by the host's clock, and removed.

Nothing in a run calls it: the code of a run is judged in the warm pool. The tests that attack a
sandbox do.
"""

import time
from dataclasses import dataclass

from engine.sandbox.docker_engine import DockerEngine
from engine.sandbox.flags import OUTPUT
from engine.sandbox.streams import Streams

REMOVAL_SECONDS = 10.0


@dataclass(kw_only=True, slots=True, frozen=True)
class Ended:
    """How a command ended: `status` is done, failed, time, output or memory."""

    status: str
    code: int | None
    output: bytes
    seconds: float


def run_once(
    engine: DockerEngine, command: list[str], given: bytes, seconds: float, run: str = "-"
) -> Ended:
    """Run `command` with `given` on its standard input; at most 1 MiB of output is read.

    SandboxLost when the engine fails: no verdict may come of that.
    """
    container = engine.create("one-shot", command, run, seconds + REMOVAL_SECONDS)
    streams = None
    try:
        began = time.monotonic()
        streams = Streams(engine.start(container))
        streams.write(given)
        output, ended = streams.read(seconds, OUTPUT)
        taken = time.monotonic() - began
        if not ended:
            status = "output" if len(output) >= OUTPUT else "time"
            return Ended(status=status, code=None, output=output, seconds=taken)
        return _how(engine, container, output, taken)
    finally:
        if streams is not None:
            streams.close()
        engine.remove(container)


def _how(engine: DockerEngine, container: str, output: bytes, seconds: float) -> Ended:
    state = engine.state_at_end(container)
    code = int(state["ExitCode"])
    status = "memory" if state["OOMKilled"] else "done" if code == 0 else "failed"
    return Ended(status=status, code=code, output=output, seconds=seconds)
