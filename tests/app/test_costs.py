"""What a run has cost, where it went, and what the rest may cost: the figures of the Cost tab."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from app.access import Access
from app.administration import LOCAL_OWNER
from app.cost_shapes import RunCost
from app.service import Service
from data.home import open_home
from data.store import Store
from data.tables import Account, ModelCall, Round, Run
from tests import sample_run

RUNNING, FINISHED, WAITING = "arith-carry-2", "arith-carry-1", "code-strings-1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    home = open_home(tmp_path / "home")
    opened = Store(home.database)
    Access(opened, home).ensure_owner()
    sample_run.fill(opened)
    yield opened
    opened.close()


def cost_of(store: Store, run: str) -> RunCost:
    return Service(store, "CPU").run_cost(LOCAL_OWNER, run)


def change(store: Store, run: str, **fields: Any) -> None:
    """Change the columns of a run's account and row."""

    def write(session: Any) -> None:
        for row in (session.get_one(Account, f"run:{run}"), session.get_one(Run, run)):
            for name, value in fields.items():
                if name in type(row).model_fields:
                    setattr(row, name, value)

    store.write(write)


def test_calls_by_role_model_round_and_phase_add_up_to_the_account(store: Store) -> None:
    cost = cost_of(store, RUNNING)
    groups = [(one.role, one.model, one.round, one.phase, one.calls) for one in cost.calls]
    assert groups == [
        ("operator", "planner-large", 1, "plan", 14),
        ("teacher", "teacher-large", 1, "collect", 76),
        ("teacher", "teacher-large", 2, "collect", 34),
    ]
    assert sum(one.calls for one in cost.calls) == cost.requests == 124
    assert round(sum(one.cost_usd for one in cost.calls) * 1e6) == 1_050_000
    assert round((cost.confirmed_usd + cost.uncertain_usd) * 1e6) == 1_050_000
    last = cost.calls[-1]
    assert (last.failed, last.uncertain, last.open) == (1, 1, 1)
    assert (last.tokens_in, last.tokens_cached, last.tokens_out) == (31 * 500, 31 * 300, 31 * 90)


def test_a_count_that_nobody_told_is_unknown_and_not_zero(store: Store) -> None:
    def forget(session: Any) -> None:
        for call in session.exec(select(ModelCall).where(ModelCall.run == RUNNING)):
            call.usage = {name: n for name, n in call.usage.items() if name == "output_tokens"}

    store.write(forget)
    first = cost_of(store, RUNNING).calls[0]
    assert first.tokens_in is None and first.tokens_cached is None
    assert first.tokens_out == 14 * 90


def test_an_answer_whose_cost_nobody_told_is_uncertain(store: Store) -> None:
    before = cost_of(store, RUNNING)

    def doubt(session: Any) -> None:
        query = select(ModelCall).where(ModelCall.run == RUNNING, ModelCall.status == "answered")
        call = session.exec(query).first()
        call.uncertain = True

    store.write(doubt)
    after = cost_of(store, RUNNING)
    assert after.uncertain_calls == before.uncertain_calls + 1
    assert after.confirmed_calls == before.confirmed_calls - 1


def test_device_money_is_shared_out_by_time_and_none_without_a_price(store: Store) -> None:
    assert {one.cost_usd for one in cost_of(store, FINISHED).phases} == {None}
    change(store, FINISHED, device_settled=392_000)
    cost = cost_of(store, FINISHED)
    assert sum(one.cost_usd or 0 for one in cost.phases) == pytest.approx(0.392)
    train = next(one for one in cost.phases if one.phase == "train")
    assert train.cost_usd == pytest.approx(0.392 * train.seconds / cost.device_seconds)


def test_the_forecast_is_what_the_last_rounds_took(store: Store) -> None:
    cost = cost_of(store, RUNNING)
    ahead = cost.forecast
    assert ahead is not None and (ahead.rounds_left, ahead.from_rounds) == (4, 1)
    first = sum(one.cost_usd for one in cost.calls if one.round == 1)
    second = sum(one.cost_usd for one in cost.calls if one.round == 2)
    assert ahead.model_usd == pytest.approx(1.05 + 4 * first - second)
    assert ahead.model_low_usd == ahead.model_usd == ahead.model_high_usd
    assert ahead.total_usd == pytest.approx(ahead.model_usd)
    assert ahead.seconds_low is not None and ahead.seconds_low >= 0
    assert ahead.reaches is None
    change(store, RUNNING, limits={"max_model_cost_usd": 2.0})
    capped = cost_of(store, RUNNING).forecast
    assert capped is not None and capped.reaches == "model cap"
    change(store, RUNNING, limits={"max_model_cost_usd": 9.0, "max_cost_usd": 2.0})
    capped = cost_of(store, RUNNING).forecast
    assert capped is not None and capped.reaches == "total cap"


def test_a_range_reaches_from_the_cheapest_to_the_dearest_of_the_last_three(store: Store) -> None:
    spent = {1: 100_000, 2: 300_000, 3: 200_000, 4: 600_000}

    def four_rounds(session: Any) -> None:
        for row in session.exec(select(Round).where(Round.run == RUNNING)):
            session.delete(row)
        for call in session.exec(select(ModelCall).where(ModelCall.run == RUNNING)):
            session.delete(call)
        session.flush()
        for number, micro in spent.items():
            at = {"started_at": sample_run.ago(minutes=60 - 10 * number)}
            at["ended_at"] = sample_run.ago(minutes=55 - 10 * number)
            row = Round(project_id="prj_local", run=RUNNING, number=number, start_version="base")
            row.outcome, row.started_at, row.ended_at = (
                "completed",
                at["started_at"],
                at["ended_at"],
            )
            session.add(row)
            call = ModelCall(project_id="prj_local", run=RUNNING, round=number, step="collect")
            call.call_key, call.role, call.model = str(number), "teacher", "m"
            call.request_hash, call.status, call.cost = "0", "answered", micro
            session.add(call)

    store.write(four_rounds)
    change(store, RUNNING, model_settled=1_200_000, model_uncertain=0, rounds_target=6)
    ahead = cost_of(store, RUNNING).forecast
    assert ahead is not None and (ahead.rounds_left, ahead.from_rounds) == (2, 3)
    assert ahead.model_low_usd == pytest.approx(1.2 + 2 * 0.2)
    assert ahead.model_high_usd == pytest.approx(1.2 + 2 * 0.6)
    assert ahead.model_usd == pytest.approx(1.2 + 2 * (0.3 + 0.2 + 0.6) / 3)
    assert [ahead.seconds_low, ahead.seconds_high] == pytest.approx([600, 600], abs=1)


def test_a_stop_costs_what_is_reserved_and_the_rest_of_its_round(store: Store) -> None:
    cost = cost_of(store, RUNNING)
    stop = cost.stop_now
    assert stop is not None and stop.open_usd == pytest.approx(0.06) and stop.phase == "train"
    first = sum(one.cost_usd for one in cost.calls if one.round == 1)
    second = sum(one.cost_usd for one in cost.calls if one.round == 2)
    assert stop.round_usd == pytest.approx(first - second)
    assert stop.phase_usd == 0  # training asks no model, and an hour has no price here


def test_before_a_round_is_completed_nothing_is_foretold(store: Store) -> None:
    cost = cost_of(store, WAITING)
    assert cost.forecast is not None and cost.forecast.from_rounds == 0
    assert cost.forecast.model_usd is None and cost.forecast.seconds_low is None
    assert cost.stop_now is not None and cost.stop_now.round_usd == 0  # it stops at once
    assert cost.gain is None and cost.calls == []


def test_an_ended_run_has_no_forecast_and_says_what_a_point_took(store: Store) -> None:
    cost = cost_of(store, FINISHED)
    assert cost.forecast is None and cost.stop_now is None
    bought = cost.gain
    assert bought is not None and bought.versions == ["candidate-1"]
    with store.read() as session:
        query = select(Round).where(Round.run == FINISHED, Round.decision == "promote")
        evidence = session.exec(query).one().evidence
    assert bought.points == pytest.approx(100 * evidence["blind"]["blind"]["difference"])
    assert bought.model_usd_per_point == pytest.approx(1.05 / bought.points)
    assert bought.device_seconds_per_point == pytest.approx(3528 / bought.points)


def test_money_of_simulated_models_is_told_apart(store: Store) -> None:
    def simulate(session: Any) -> None:
        for call in session.exec(select(ModelCall).where(ModelCall.run == RUNNING)):
            call.simulated = call.role == "operator"

    store.write(simulate)
    cost = cost_of(store, RUNNING)
    assert cost.simulated_usd == pytest.approx(14 * 0.00843)
    assert [one.simulated for one in cost.calls] == [True, False, False]
    assert cost_of(store, "carry-rehearsal-1").simulated
