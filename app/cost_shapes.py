"""What the service returns about the money of one run.

Money is in USD and exact to the micro-dollar; None is "not known" and is shown as a dash.
"""

from pydantic import BaseModel, Field


class PhaseTime(BaseModel):
    """Device time of one phase; round 0 is the preparation before the first round."""

    round: int
    phase: str
    seconds: float  # settled so far
    held: bool  # it holds the device now
    cost_usd: float | None = None  # its share of the device's money; None without a price an hour


class CallCost(BaseModel):
    """The calls through the gateway by one role to one model in one phase of one round.

    A token count of None was told by no answer. `cost_usd` has uncertain outcomes in it.
    """

    role: str  # operator | teacher | student | auditor
    model: str
    simulated: bool
    round: int
    phase: str
    calls: int
    failed: int
    uncertain: int
    open: int
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    cost_usd: float


class Forecast(BaseModel):
    """What the run costs at its target if its next rounds are like its last ones.

    `from_rounds` completed rounds are what it rests on; with none of them nothing is known. Low and
    high are the cheapest and the dearest of those rounds, time is by the clock.
    """

    rounds_left: int  # the round under way among them
    from_rounds: int
    model_usd: float | None = None
    model_low_usd: float | None = None
    model_high_usd: float | None = None
    total_usd: float | None = None
    seconds_low: float | None = None
    seconds_high: float | None = None
    reaches: str | None = None  # the first cap that this would pass: "model cap" | "total cap"


class Gain(BaseModel):
    """What the money bought: blind gains of the promoted versions, each over the best before it."""

    versions: list[str]
    points: float
    model_usd_per_point: float
    total_usd_per_point: float
    device_seconds_per_point: float


class StopNow(BaseModel):
    """What a stop asked for now can still cost: a run stops after the round under way.

    `open_usd` is the worst case of what is reserved; the other two are what the last rounds took
    for the rest of the phase and of the round, None where no round was completed yet.
    """

    open_usd: float
    phase: str | None
    phase_usd: float | None
    round_usd: float | None


class RunCost(BaseModel):
    """A run's spend beside its caps; a cap of None is not set."""

    simulated: bool = False
    simulated_usd: float = 0.0  # part of the spend that went to simulated models, so to nobody
    confirmed_usd: float
    uncertain_usd: float  # charged whole, since nobody can tell what it cost
    reserved_usd: float  # the worst case of calls that are open
    cap_usd: float | None
    confirmed_calls: int
    failed_calls: int
    uncertain_calls: int
    open_calls: int
    device_usd: float
    device_reserved_usd: float
    device_seconds: float
    total_usd: float
    total_cap_usd: float | None
    requests: int
    requests_cap: int | None
    phases: list[PhaseTime]
    calls: list[CallCost] = Field(default_factory=list)
    forecast: Forecast | None = None  # None once the run has ended
    gain: Gain | None = None  # None while no version was promoted
    stop_now: StopNow | None = None  # None once the run has ended
