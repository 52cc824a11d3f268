"""What a run has cost: model money settled, uncertain and reserved, and its time on the device."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import case, func, or_
from sqlalchemy import select as columns  # SQLModel's knows four of them at most
from sqlmodel import Session, col, select

from app import cost_shapes as shapes
from app.forecast import forecast, gain, round_costs, stop_now
from data.ledger import MICRO
from data.lifecycle import ENDED
from data.tables import Account, Lease, Live, ModelCall, Round, Run

COUNTS = ("input_tokens", "cached_tokens", "output_tokens")  # of a call's usage
STATES = (  # of calls: known to be free, charged whole, under way
    col(ModelCall.status) == "failed",
    or_(col(ModelCall.status) == "uncertain", col(ModelCall.uncertain)),
    col(ModelCall.status) == "sent",
)


def run_cost(session: Session, run: Run) -> shapes.RunCost:
    """Every total of the run's account beside its caps, where it went, and what may still come."""
    account = session.get(Account, f"run:{run.id}")
    account = account or Account(id=f"run:{run.id}", project_id=run.project_id)
    calls = _calls(session, run.id)
    phases = _phases(session, run.id, account)
    rounds = session.exec(select(Round).where(Round.run == run.id).order_by(col(Round.number)))
    spent = round_costs(rounds.all(), calls, phases)
    ahead = run.state not in ENDED
    live = session.get(Live, run.id)
    return shapes.RunCost(
        simulated=run.simulated,
        simulated_usd=_exact(one.cost_usd for one in calls if one.simulated),
        confirmed_usd=(account.model_settled - account.model_uncertain) / MICRO,
        uncertain_usd=account.model_uncertain / MICRO,
        reserved_usd=account.model_reserved / MICRO,
        cap_usd=run.limits.get("max_model_cost_usd"),
        confirmed_calls=sum(one.calls - one.failed - one.uncertain - one.open for one in calls),
        failed_calls=sum(one.failed for one in calls),
        uncertain_calls=sum(one.uncertain for one in calls),
        open_calls=sum(one.open for one in calls),
        device_usd=account.device_settled / MICRO,
        device_reserved_usd=account.device_reserved / MICRO,
        device_seconds=account.device_ms / 1000,
        total_usd=(account.model_settled + account.device_settled) / MICRO,
        total_cap_usd=run.limits.get("max_cost_usd"),
        requests=account.requests,
        requests_cap=run.limits.get("max_model_requests"),
        phases=phases,
        calls=calls,
        forecast=forecast(run, account, spent) if ahead else None,
        gain=gain(account, spent),
        stop_now=stop_now(account, live.phase if live else None, spent) if ahead else None,
    )


def _calls(session: Session, run: str) -> list[shapes.CallCost]:
    """Calls through the gateway by role, model, round and phase, in the order of their first one.

    A token count that no answer told is NULL in the sum as well.
    """
    tokens = [func.sum(func.json_extract(ModelCall.usage, f"$.{name}")) for name in COUNTS]
    states = [func.sum(case((one, 1), else_=0)) for one in STATES]
    spent = func.coalesce(func.sum(ModelCall.cost), 0)
    where: list[Any] = [ModelCall.role, ModelCall.model, ModelCall.simulated]
    where += [ModelCall.round, ModelCall.step]
    query: Any = columns(*where, func.count(), *states, *tokens, spent)
    of_run = query.where(ModelCall.run == run).group_by(*where).order_by(func.min(ModelCall.id))
    return [_call_cost(row) for row in session.exec(of_run)]


def _call_cost(row: Sequence[Any]) -> shapes.CallCost:
    role, model, simulated, round_, phase, calls, failed, uncertain, sent, *rest = row
    tokens_in, cached, tokens_out, micro = rest
    return shapes.CallCost(
        role=role,
        model=model,
        simulated=bool(simulated),
        round=round_,
        phase=phase,
        calls=calls,
        failed=failed,
        uncertain=uncertain,
        open=sent,
        tokens_in=tokens_in,
        tokens_cached=cached,
        tokens_out=tokens_out,
        cost_usd=micro / MICRO,
    )


def _phases(session: Session, run: str, account: Account) -> list[shapes.PhaseTime]:
    """Device time in the order in which the device was first taken; a resumed phase adds up.

    A phase's money is its share of the device's money by time: one price an hour stands for all.
    """
    rate = account.device_settled / account.device_ms if account.device_ms else 0.0
    held = func.max(col(Lease.state) == "held")
    query = select(Lease.round, Lease.purpose, func.sum(Lease.active_ms), held)
    of_run = query.where(Lease.run == run).group_by(col(Lease.round), col(Lease.purpose))
    return [
        shapes.PhaseTime(
            round=round_ or 0,
            phase=phase,
            seconds=ms / 1000,
            held=bool(is_held),
            cost_usd=rate * ms / MICRO if rate else None,
        )
        for round_, phase, ms, is_held in session.exec(of_run.order_by(func.min(Lease.id)))
    ]


def _exact(amounts: Iterable[float]) -> float:
    """A sum of USD without what adding floats does to it."""
    return sum(round(one * MICRO) for one in amounts) / MICRO
