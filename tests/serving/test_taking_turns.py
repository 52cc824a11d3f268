"""Training and serving on a device that is too small for both at once: real processes take turns."""

from pathlib import Path

import pytest
from sqlmodel import col, select

from data.tables import Child, Job, Run
from engine import spots
from engine.errors import EndpointNotReady
from engine.facts import read_facts
from engine.types import ModelRef
from tests.instance import LIBRARY, OWNER, Instance, instance
from tests.waiting import eventually
from tests.worker.tiny_loop import lay_model

GB = 10**9
CHAT = {"messages": [{"role": "user", "content": "2 + 2 = ?"}], "max_tokens": 2}


@pytest.mark.long
def test_what_serves_sleeps_for_a_phase_and_answers_again_afterwards(
    tmp_path: Path, tiny: ModelRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spots, "memory", lambda: (24 * GB, 1_400_000_000))
    lay_model(tmp_path, tiny)
    with instance(tmp_path) as pawl:
        body = {"type": "inference", "request_id": "r", "spec": {"model": "tiny"}}
        job = pawl.service.submit_job(OWNER, body).job_id
        pawl.engine.endpoints.look()
        eventually(lambda: status(pawl, job) == "running", 120)
        assert ask(pawl, job)["choices"] and serving(pawl)
        pawl.start("carry-1", preset="default", base_model="tiny")
        with pawl.store.read() as session:
            run = read_facts(session.get_one(Run, "carry-1"), LIBRARY, pawl.home)
        with pawl.engine.machine.phase(run, "train"):
            assert not serving(pawl)
            with pytest.raises(EndpointNotReady, match=r"while carry-1 \(train\) has it"):
                ask(pawl, job)
            eventually(lambda: not pawl.service.device(OWNER).holders)
        assert ask(pawl, job)["choices"] and serving(pawl)


def ask(pawl: Instance, job: str) -> dict[str, object]:
    """The answer of the deployed model."""
    answer: dict[str, object] = pawl.engine.endpoints.ask(job, "chat/completions", CHAT, "owner")
    return answer


def serving(pawl: Instance) -> list[int]:
    """The processes that serve."""
    query = select(Child.pid).where(Child.purpose == "serving", col(Child.ended_at).is_(None))
    with pawl.store.read() as session:
        return [pid for pid in session.exec(query) if Path(f"/proc/{pid}").exists()]


def status(pawl: Instance, job: str) -> str:
    """The endpoint's status; running once it has shown that it answers."""
    with pawl.store.read() as session:
        row = session.get_one(Job, job)
    assert row.status != "failed", row.reason
    return row.status
