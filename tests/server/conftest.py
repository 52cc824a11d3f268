"""A server and its worker that sleep for a minute while other tests go on."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sqlmodel import col, select

from data.tables import Live, ModelCall
from engine.types import ModelRef
from tests.server.process import SMALL, Server
from tests.worker.tiny_loop import lay_model

ASLEEP = 60


@dataclass(kw_only=True)
class Sleepers:
    """The processes, when they were started and when they fell asleep."""

    server: Server
    pids: list[int]
    began: float
    asleep: float

    def wake(self) -> float:
        """Wake them after a whole minute; seconds that they were asleep for."""
        time.sleep(max(0.0, self.asleep + ASLEEP - time.monotonic()))
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)
        return time.monotonic() - self.asleep


@pytest.fixture(scope="session")
def sleepers(tmp_path_factory: pytest.TempPathFactory, tiny: ModelRef) -> Iterator[Sleepers]:
    """Stopped by SIGSTOP in the middle of a real run and a dry one."""
    home, began = tmp_path_factory.mktemp("asleep"), time.monotonic()
    lay_model(home, tiny)
    server = Server(home, PAWL_SIM_PACE="0.1")
    try:
        server.start_run(run="live", preset="smoke", base_model="tiny")
        server.start_run(run="dry", dry_run=True, limits=SMALL, rounds=1)
        server.wait_for(select(Live).where(Live.run == "live", col(Live.done) > 0), 180)
        server.wait_for(select(ModelCall), 60)
        pids = [server.process.pid, *server.children()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield Sleepers(server=server, pids=pids, began=began, asleep=time.monotonic())
    finally:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGCONT)
        server.close()
