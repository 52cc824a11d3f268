"""The wall clock jumps under a running server: back an hour, on to the year 2200, and home again."""

import os
import time
from pathlib import Path

import pytest
from sqlmodel import select

from data.tables import Account, Lease, Run, Step
from tests.server.process import SMALL, Server
from tests.stopwatch import Stopwatch

JUMPS = {"back-an-hour": "-1h", "year-2200": "@2200-01-01 00:00:00", "home-again": "+0"}


def leave_out(why: str) -> None:
    """Skip the test; in CI, where everything is to be there, it has failed."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


class Clock:
    """The wall clock of a process, as libfaketime tells it; the monotonic one is left alone."""

    def __init__(self, folder: Path) -> None:
        found = list(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
        if not found:
            leave_out("libfaketime is not installed (Debian: apt-get install faketime)")
        self._file = folder / "clock"
        self.set("+0")
        self.environment = {
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",  # seconds between two looks at the file
            "PYTHONPATH": str(Path(__file__).parent / "faketime"),
        }

    def set(self, moment: str) -> None:
        """Such as "-1h" or "@2200-01-01 00:00:00"."""
        aside = self._file.with_suffix(".new")
        aside.write_text(moment)
        aside.replace(self._file)


@pytest.mark.timeout(600)
def test_the_loop_goes_on_through_every_jump_and_memory_stays_flat(tmp_path):
    clock = Clock(tmp_path)
    began = time.monotonic()
    server = Server(tmp_path / "home", **clock.environment)
    try:
        server.start_run(run="under-way", preset="sim", limits=SMALL, rounds=2)
        server.wait_for(select(Step).where(Step.step == "diagnose"), 90)
        before = memory_kib(server)
        for name, moment in JUMPS.items():
            clock.set(moment)
            time.sleep(2.5)  # the timer has slept by the new clock
            watch = Stopwatch()
            server.start_run(run=name, dry_run=True, limits=SMALL, rounds=1)
            server.wait_for(select(Step).where(Step.run == name), 60)
            assert watch.stop() < 10, f"{name}: the engine slept"
        years = {run.id: run.created_at[:4] for run in server.read(select(Run))}
        assert years["year-2200"] == "2200"
        for run in ("under-way", *JUMPS):
            (found,) = server.wait_for(
                select(Run).where(Run.id == run, Run.state == "finished"), 120
            )
            assert found.reason and found.reason.endswith("promoted")
        assert memory_kib(server) - before < 40_000
        lived = time.monotonic() - began
        leases = server.read(select(Lease))
        assert {lease.state for lease in leases} == {"ended"}
        assert 0 < sum(lease.active_ms for lease in leases) / 1000 < lived
        for account in server.read(select(Account)):
            assert account.device_ms / 1000 < lived and account.device_reserved == 0
        watch = Stopwatch()
        assert server.terminate() == 0
        assert watch.stop() < 10
    finally:
        server.close()
    assert "Traceback" not in server.log.read_text()


def memory_kib(server: Server) -> int:
    """Resident memory of the server's process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
