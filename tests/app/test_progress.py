"""How far a training by hand is: counted from where this attempt took it up, silent while it waits."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlmodel import select

from data import events
from data.job_places import log_name
from data.tables import Job, Live
from tests.instance import OWNER, instance

JOB: dict[str, Any] = {
    "id": "job-1",
    "project_id": OWNER.project_id,
    "type": "train",
    "status": "running",
    "spec": {"base_model": "SmolLM2-135M-Instruct"},
}


def test_the_time_that_is_left_is_told_by_the_pace_of_this_attempt(tmp_path: Path) -> None:
    """600 of 1,000 steps were done before; 30 more took 30 seconds."""
    with instance(tmp_path) as pawl:
        pawl.store.write(lambda s: s.add(Job(**JOB)))
        name = log_name("job-1")
        show = {"phase": "train", "total": 1000}
        pawl.store.write(lambda s: events.show(s, name, **show, done=None))
        pawl.store.write(lambda s: events.show(s, name, **show, done=600))
        assert pawl.service.job_progress(OWNER, "job-1").seconds_left is None
        began = time.monotonic()
        half_a_minute_ago = (datetime.now(UTC) - timedelta(seconds=30)).isoformat()
        pawl.store.write(
            lambda s: setattr(s.exec(select(Live)).one(), "first_at", half_a_minute_ago)
        )
        pawl.store.write(lambda s: events.show(s, name, **show, done=630))
        found = pawl.service.job_progress(OWNER, "job-1")
        assert (found.done, found.total) == (630, 1000)
        taken = found.seconds_left / 370 * 30  # by the 30 steps, as it was counted
        assert 30 <= taken <= 30 + time.monotonic() - began


def test_one_that_waits_tells_its_reason_and_no_progress(tmp_path: Path) -> None:
    with instance(tmp_path) as pawl:
        waits = {"status": "queued", "reason": "waits for the device, held by sums-1"}
        pawl.store.write(lambda s: s.add(Job(**JOB | waits)))
        pawl.store.write(lambda s: events.show(s, log_name("job-1"), phase="train", done=3))
        assert pawl.service.job_progress(OWNER, "job-1") is None
