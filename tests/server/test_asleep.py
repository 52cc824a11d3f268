"""A server and its worker are stopped for a minute, which passes while other tests run."""

from pathlib import Path

from tests.server.conftest import Sleepers
from tests.waiting import eventually


def test_they_fall_asleep_in_the_middle_of_their_work(sleepers: Sleepers):
    assert len(sleepers.pids) == 2
    eventually(lambda: {state(pid) for pid in sleepers.pids} == {"T"})


def state(pid: int) -> str:
    """The system's letter for what a process does: T for stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
