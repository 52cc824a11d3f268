"""What people say to a run at work reaches it once, in order, though its server is killed."""

import time
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from data.tables import INSERTED, Event, Round, Steer, Step
from tests.doors.wire import Wire
from tests.server.process import SMALL, Server

RUNS = "/v1/agent-runs/rsi/runs"
RUN = "steered"
DRY = {"dry_run": True, "rounds": 1000, "operator_model": "sim/operator", "limits": SMALL}

pytestmark = pytest.mark.timeout(600)


def test_steers_accepted_before_a_kill_are_delivered_by_the_next_server_once_and_in_order(
    tmp_path: Path,
) -> None:
    first = second = Server(tmp_path, PAWL_SIM_PACE="0.05")
    try:
        first.start_run(run=RUN, **DRY)
        planned = select(Step).where(Step.step == "plan", Step.status == "done")
        first.wait_for(planned, 120)
        first.kill()
        first = Server(tmp_path, PAWL_SIM_PACE="300")  # it never gets to another plan
        before = [steer(first, f"steer {number} of the first server") for number in range(5)]
        first.kill()
        rows = steers(first)
        assert [row.id for row in rows] == before and {row.status for row in rows} == {"queued"}
        second = Server(tmp_path)
        after = [steer(second, f"steer {number} of the second server") for number in range(3)]
        delivered = select(Steer).where(Steer.id == after[-1], Steer.status == "delivered")
        second.wait_for(delivered, 120)
        check(second, [*before, *after])
    finally:
        first.close()
        second.close()


def steer(server: Server, text: str) -> str:
    """Steer the run through REST; the id that came back."""
    wire = Wire(server, server.home.owner_key.read_text().strip())
    answer = wire.send({"text": text}, path=f"{RUNS}/{RUN}/steer")
    assert answer.status == 202 and answer.json["status"] == "queued"
    return str(answer.json["id"])


def steers(server: Server) -> list[Any]:
    """Every steer, in the order in which they were accepted."""
    return server.read(select(Steer).order_by(INSERTED))


def check(server: Server, ids: list[str]) -> None:
    """Each is in exactly one plan and told by exactly one event, all in the order of `ids`."""
    wait_until_a_round_later(server)
    rows = steers(server)
    assert [row.id for row in rows] == ids
    assert {(row.status, row.reason) for row in rows} == {("delivered", None)}
    rounds = server.read(select(Round).order_by(col(Round.number)))
    cited = [said["id"] for one in rounds for said in (one.plan or {}).get("steers", [])]
    assert cited == ids
    query = select(Event).where(Event.kind == "steer").order_by(col(Event.seq))
    assert [event.text for event in server.read(query)] == [
        f"{one} delivered to the plan" for one in ids
    ]
    wire = Wire(server, server.home.owner_key.read_text().strip())
    live = wire.send(method="GET", path=f"{RUNS}/{RUN}/live").json["steers"]
    assert [(one["id"], one["status"]) for one in live] == [(one, "delivered") for one in ids]
    assert all(one["delivered_at"] for one in live)


def wait_until_a_round_later(server: Server) -> None:
    """Another plan was made since, which could have taken a steer up again."""
    made = select(Step).where(Step.step == "plan", Step.status == "done")
    count, deadline = len(server.read(made)), time.monotonic() + 120
    while len(server.read(made)) == count:
        assert time.monotonic() < deadline, "no other round after 120 s"
        time.sleep(0.1)
