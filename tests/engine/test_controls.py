"""Stop, resume, extend and steers: what people ask of a run is carried out, or refused in words."""

import pytest

from data.tables import Account, Control, Event, Job, Round, Run, Steer
from tests.engine.stepwise import standing
from tests.instance import OWNER, Instance, instance


@pytest.fixture
def pawl(tmp_path):
    with instance(tmp_path) as one:
        yield one


def ask(pawl: Instance, run: str, action: str, **fields: object) -> None:
    """A control request as a door writes it."""
    control = Control(project_id="prj_local", run=run, action=action, author="owner", **fields)
    pawl.store.write(lambda s: s.add(control))
    pawl.engine.tick()


def steer(pawl: Instance, run: str, number: int = 1) -> None:
    row = Steer(id=f"steer-{number}", project_id="prj_local", run=run, text="more", author="owner")
    pawl.store.write(lambda s: s.add(row))


def test_a_waiting_run_is_stopped_at_once_with_everything_settled(pawl):
    pawl.start("first")
    pawl.start("second")
    pawl.engine.tick()
    steer(pawl, "second")
    ask(pawl, "second", "stop")
    found = pawl.service.run_detail(OWNER, "second")
    assert found.state == "stopped" and found.reason == "stopped by owner"
    assert {(job.run, job.status) for job in pawl.rows(Job)} >= {("second", "cancelled")}
    assert pawl.rows(Steer)[0].status == "dropped"
    pawl.wait("first")


def test_a_working_run_stops_after_its_round(pawl):
    pawl.start("r", rounds=5)
    with standing(pawl, "r", "after_round_begin"):
        ask(pawl, "r", "resume")  # refused: it is not halted
        ask(pawl, "r", "stop")
    found = pawl.wait("r")
    assert found.state == "stopped" and found.reason == "stopped by owner after round 1"
    assert [r.outcome for r in found.rounds] == ["completed"]
    assert [c.status for c in pawl.rows(Control)] == ["refused", "done"]


def test_extend_carries_a_finished_run_on(pawl):
    pawl.start("r", rounds=1)
    pawl.wait("r")
    ask(pawl, "r", "extend", rounds=2)
    found = pawl.wait("r")
    assert (found.state, found.rounds_target, len(found.rounds)) == ("finished", 2, 2)


def test_after_rounds_without_gain_extend_gives_as_many_again(pawl):
    pawl.start("r", rounds=9, min_gain=1.0)
    assert pawl.wait("r").reason == "3 rounds without gain"
    ask(pawl, "r", "extend", rounds=12)
    found = pawl.wait("r")
    assert found.reason == "3 rounds without gain" and len(found.rounds) == 6


def test_a_run_that_hit_its_cap_goes_on_where_it_was_once_the_cap_is_raised(pawl):
    pawl.start("r", dry_run=True, rounds=1, limits={"max_model_cost_usd": 0.001})
    stopped = pawl.wait("r")
    assert stopped.state == "stopped" and "model cap" in stopped.reason
    ask(pawl, "r", "extend", rounds=1, limits={"max_model_cost_usd": 0.5})
    found = pawl.wait("r")
    assert found.state == "finished" and [r.decision for r in found.rounds] == ["not_evaluated"]
    assert found.spend.model_usd > 0.001 and found.limits["max_model_cost_usd"] == 0.5


def test_a_cap_is_never_lowered(pawl):
    pawl.start("r", rounds=1)
    pawl.wait("r")
    ask(pawl, "r", "extend", rounds=2, limits={"max_model_cost_usd": 0.0001})
    pawl.wait("r")
    assert pawl.rows(Account)[0].model_cap == 1_000_000 or pawl.rows(Account)[1].model_cap


def test_a_steer_reaches_the_operators_plan_and_is_cited_there(pawl):
    pawl.start("r", rounds=1, operator_model="sim/operator")
    steer(pawl, "r")
    pawl.wait("r")
    found = pawl.rows(Round)[0]
    assert pawl.rows(Steer)[0].status == "delivered"
    assert (
        found.plan["steers"] == [{"id": "steer-1", "text": "more"}] and "more" in found.hypothesis
    )
    assert any(event.kind == "steer" for event in pawl.rows(Event))


def test_a_steer_that_no_planner_reads_is_dropped_with_the_reason(pawl):
    pawl.start("r", rounds=1)
    steer(pawl, "r")
    pawl.wait("r")
    found = pawl.rows(Steer)[0]
    assert found.status == "dropped" and "operator model" in found.reason
    assert pawl.rows(Round)[0].plan["steers"] == []


def test_a_run_with_any_simulated_model_is_labelled(pawl):
    pawl.start("r", dry_run=True, teacher_model="sim/teacher", rounds=1)
    assert all(run.simulated for run in pawl.rows(Run))


def test_a_small_guard_supports_no_promotion(pawl):
    pawl.start("r", rounds=1, limits={"max_model_cost_usd": 1.0, "eval_limit": 1})
    found = pawl.wait("r")
    assert found.rounds[0].guard["n"] >= 120
    assert found.rounds[0].decision == "inconclusive" and "held-out" in found.rounds[0].reason


def test_the_job_of_a_resumed_run_is_at_work_again(pawl):
    pawl.start("first")
    pawl.start("second")
    pawl.engine.tick()
    ask(pawl, "second", "stop")
    job = next(one for one in pawl.rows(Job) if one.run == "second")
    assert job.status == "cancelled" and job.finished_at
    ask(pawl, "second", "resume")
    with standing(pawl, "second", "after_round_begin"):
        (seen,) = pawl.rows(Job, id=job.id)
        assert (seen.status, seen.finished_at, seen.reason) == ("running", None, None)
