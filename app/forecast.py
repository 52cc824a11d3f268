"""What a run may still cost, and what it has bought: from what its last rounds took, nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from app import cost_shapes as shapes
from data.ledger import MICRO
from data.tables import Account, Round, Run

LAST = 3  # completed rounds that a forecast rests on
POINTS = 100  # points of a gain of 1.0


@dataclass(kw_only=True, slots=True)
class RoundCost:
    """What one round took: model money and device money by phase, in USD, and time by the clock."""

    row: Round
    model: dict[str, float] = field(default_factory=dict)
    device: dict[str, float] = field(default_factory=dict)

    @property
    def model_usd(self) -> float:
        return sum(self.model.values())

    @property
    def total_usd(self) -> float:
        return self.model_usd + sum(self.device.values())

    @property
    def seconds(self) -> float:
        end = datetime.fromisoformat(self.row.ended_at) if self.row.ended_at else datetime.now(UTC)
        return (end - datetime.fromisoformat(self.row.started_at)).total_seconds()

    def phase_usd(self, phase: str) -> float:
        """Model and device money of one phase."""
        return self.model.get(phase, 0.0) + self.device.get(phase, 0.0)


def round_costs(
    rounds: Sequence[Round], calls: Sequence[shapes.CallCost], phases: Sequence[shapes.PhaseTime]
) -> list[RoundCost]:
    """Calls and device time put together by round, first to last."""
    found = {row.number: RoundCost(row=row) for row in rounds}
    for call in calls:
        if call.round in found:
            money = found[call.round].model
            money[call.phase] = money.get(call.phase, 0.0) + call.cost_usd
    for time in phases:
        if time.round in found and time.cost_usd:
            money = found[time.round].device
            money[time.phase] = money.get(time.phase, 0.0) + time.cost_usd
    return list(found.values())


def forecast(run: Run, account: Account, rounds: Sequence[RoundCost]) -> shapes.Forecast:
    """The rest of the run at the pace of its last completed rounds."""
    ended = sum(1 for one in rounds if one.row.outcome is not None)
    left = max(0, run.rounds_target - ended)
    like = _completed(rounds)
    if not like:
        return shapes.Forecast(rounds_left=left, from_rounds=0)
    now = _under_way(rounds)
    model, total = account.model_settled / MICRO, _total(account)
    model_rounds = [one.model_usd for one in like]
    spent = now.model_usd if now else 0.0
    likely = model + _rest(_mean(model_rounds), left, spent)
    likely_total = total + _rest(
        _mean([one.total_usd for one in like]), left, now.total_usd if now else 0.0
    )
    elapsed = now.seconds if now else 0.0
    times = [one.seconds for one in like]
    return shapes.Forecast(
        rounds_left=left,
        from_rounds=len(like),
        model_usd=likely,
        model_low_usd=model + _rest(min(model_rounds), left, spent),
        model_high_usd=model + _rest(max(model_rounds), left, spent),
        total_usd=likely_total,
        seconds_low=_rest(min(times), left, elapsed),
        seconds_high=_rest(max(times), left, elapsed),
        reaches=_reaches(run, likely, likely_total),
    )


def gain(account: Account, rounds: Sequence[RoundCost]) -> shapes.Gain | None:
    """Money and device time for each point gained; None while nothing was gained."""
    promoted = [one.row for one in rounds if one.row.decision == "promote"]
    points = sum(_blind_points(row) or 0.0 for row in promoted)
    if points <= 0:
        return None
    return shapes.Gain(
        versions=[row.candidate or "" for row in promoted],
        points=points,
        model_usd_per_point=account.model_settled / MICRO / points,
        total_usd_per_point=_total(account) / points,
        device_seconds_per_point=account.device_ms / 1000 / points,
    )


def stop_now(account: Account, phase: str | None, rounds: Sequence[RoundCost]) -> shapes.StopNow:
    """What is reserved, and the rest of the round under way as the last rounds took it."""
    now, like = _under_way(rounds), _completed(rounds)
    open_usd = (account.model_reserved + account.device_reserved) / MICRO
    phase_usd, round_usd = None, 0.0 if now is None else None
    if now is not None and like:
        round_usd = _rest(_mean([one.total_usd for one in like]), 1, now.total_usd)
    if now is not None and like and phase is not None:
        usual = _mean([one.phase_usd(phase) for one in like])
        phase_usd = _rest(usual, 1, now.phase_usd(phase))
    return shapes.StopNow(open_usd=open_usd, phase=phase, phase_usd=phase_usd, round_usd=round_usd)


def _completed(rounds: Sequence[RoundCost]) -> list[RoundCost]:
    return [one for one in rounds if one.row.outcome == "completed"][-LAST:]


def _under_way(rounds: Sequence[RoundCost]) -> RoundCost | None:
    return next((one for one in rounds if one.row.outcome is None), None)


def _rest(each: float, count: int, spent: float) -> float:
    """What is still to come of `count` times `each`, `spent` of which is there already."""
    return max(0.0, each * count - spent)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _total(account: Account) -> float:
    return (account.model_settled + account.device_settled) / MICRO


def _reaches(run: Run, model: float, total: float) -> str | None:
    model_cap, total_cap = (run.limits.get(n) for n in ("max_model_cost_usd", "max_cost_usd"))
    if model_cap is not None and model > model_cap:
        return "model cap"
    return "total cap" if total_cap is not None and total > total_cap else None


def _blind_points(row: Round) -> float | None:
    """The blind gain that its gate promoted a round's candidate for, in points."""
    figures = (row.evidence.get("blind") or {}).get("blind") or {}
    difference = figures.get("difference")
    return None if difference is None else POINTS * float(difference)
