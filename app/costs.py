"""What a run has cost: model money settled, uncertain and reserved, and its time on the device."""

from sqlalchemy import func
from sqlmodel import Session, col, select

from app import shapes
from data.ledger import MICRO
from data.tables import Account, Lease, ModelCall, Run


def run_cost(session: Session, run: Run) -> shapes.RunCost:
    """Every total of the run's account beside its cap, and device time by round and phase."""
    account = session.get(Account, f"run:{run.id}")
    account = account or Account(id=f"run:{run.id}", project_id=run.project_id)
    calls = _calls(session, run.id)
    return shapes.RunCost(
        confirmed_usd=(account.model_settled - account.model_uncertain) / MICRO,
        uncertain_usd=account.model_uncertain / MICRO,
        reserved_usd=account.model_reserved / MICRO,
        cap_usd=run.limits.get("max_model_cost_usd"),
        confirmed_calls=calls.get("answered", 0),
        failed_calls=calls.get("failed", 0),
        uncertain_calls=calls.get("uncertain", 0),
        open_calls=calls.get("sent", 0),
        device_usd=account.device_settled / MICRO,
        device_reserved_usd=account.device_reserved / MICRO,
        device_seconds=account.device_ms / 1000,
        total_usd=(account.model_settled + account.device_settled) / MICRO,
        total_cap_usd=run.limits.get("max_cost_usd"),
        requests=account.requests,
        requests_cap=run.limits.get("max_model_requests"),
        phases=_phases(session, run.id),
    )


def _calls(session: Session, run: str) -> dict[str, int]:
    """How many calls through the gateway ended how."""
    query = select(ModelCall.status, func.count()).where(ModelCall.run == run)
    return dict(session.exec(query.group_by(col(ModelCall.status))).all())


def _phases(session: Session, run: str) -> list[shapes.PhaseTime]:
    """Device time in the order in which the device was first taken; a resumed phase adds up."""
    held = func.max(col(Lease.state) == "held")
    query = select(Lease.round, Lease.purpose, func.sum(Lease.active_ms), held)
    of_run = query.where(Lease.run == run).group_by(col(Lease.round), col(Lease.purpose))
    return [
        shapes.PhaseTime(round=round_ or 0, phase=phase, seconds=ms / 1000, held=bool(is_held))
        for round_, phase, ms, is_held in session.exec(of_run.order_by(func.min(Lease.id)))
    ]
