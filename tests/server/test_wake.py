"""A minute asleep, server and worker both: the work goes on where it was, none of it twice."""

import time

import pytest
from sqlmodel import select

from data.tables import Account, Child, Lease, ModelCall, Run, Step
from engine.lease import MARGIN_SECONDS, SLICE_SECONDS
from tests.server.conftest import ASLEEP, Sleepers
from tests.server.process import Server


@pytest.mark.timeout(600)
def test_a_minute_asleep_neither_loses_nor_doubles_work(sleepers: Sleepers):
    server = sleepers.server
    asleep = sleepers.wake()
    assert asleep >= ASLEEP
    for run in ("live", "dry"):
        (found,) = server.wait_for(select(Run).where(Run.id == run, Run.state == "finished"), 180)
        assert found.reason == "1 round, 0 promoted"
    check_once(server)
    check_bill(server, time.monotonic() - sleepers.began - asleep)
    assert server.terminate() == 0


def check_once(server: Server) -> None:
    """Every step and every call had one attempt, by one worker."""
    assert {(step.attempt, step.status) for step in server.read(select(Step))} == {(1, "done")}
    assert {(c.attempt, c.status) for c in server.read(select(ModelCall))} == {(1, "answered")}
    assert len(server.read(select(Child))) == 1


def check_bill(server: Server, awake: float) -> None:
    """A lease that was not renewed for a minute is paid for at most what was reserved for it."""
    metered = sum(lease.active_ms for lease in server.read(select(Lease))) / 1000
    assert metered <= awake + SLICE_SECONDS + MARGIN_SECONDS
    for account in server.read(select(Account)):
        assert account.device_reserved == account.model_reserved == 0
