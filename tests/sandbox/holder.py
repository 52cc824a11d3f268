"""A Pawl server with containers up: two warm ones and eight that would never end by themselves."""

import sys
import time

import run as pawl
from app.stopping import Stopping
from engine.sandbox.docker_engine import DockerEngine
from engine.sandbox.owner import instance_of
from engine.sandbox.pool import Case, WarmPool


def main() -> None:
    """Hold the home, make the containers, say so and wait to be killed."""
    with pawl.opened(Stopping()) as server:
        engine = DockerEngine(instance_of(server.home.path))
        pool = WarmPool(engine, 2)
        pool.run_all([Case(code="import time\ndef f():\n    time.sleep(1)", entry="f")] * 2)
        for _ in range(8):
            engine.start(engine.create("one-shot", ["sleep", "900"], "-", 900))
        print("up", flush=True)
        time.sleep(900)


if __name__ == "__main__":
    sys.exit(main())
