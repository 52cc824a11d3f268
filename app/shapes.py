"""What the service returns, by noun; doors and pages show these and nothing else.

None is "not known" and is shown as a dash. Scores are in [0, 1], money is in USD.
"""

from typing import Any

from pydantic import BaseModel, Field


class Owner(BaseModel):
    workspace_id: str
    project_id: str
    actor: str


class Spend(BaseModel):
    """Spend of a run. `device_seconds` is metered whether or not an hour has a price."""

    model_usd: float
    gpu_usd: float
    total_usd: float
    uncertain_usd: float = 0.0
    reserved_usd: float = 0.0
    model_requests: int = 0
    device_seconds: float = 0.0
    max_model_cost_usd: float | None = None
    max_cost_usd: float | None = None


class Interval(BaseModel):
    """A mean or a difference with its 95 % interval."""

    mean: float | None
    low: float | None
    high: float | None


class Score(BaseModel):
    """One version on one suite and split: mean over scored, interval, n scored, coverage."""

    suite: str
    split: str
    round: int
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    n: int
    planned: int
    coverage: float | None
    conservative: float | None
    protocol_hash: str
    families: dict[str, Any] = Field(default_factory=dict)  # family -> {"mean", "n"}
    simulated: bool = False


class VersionScores(BaseModel):
    version: str  # base, candidate-1, ...
    role: str  # baseline | candidate
    trained_rows: int | None
    adapter: str | None
    version_hash: str
    simulated: bool
    scores: list[Score]


class RunSummary(BaseModel):
    run: str
    state: str
    mode: str  # live | dry
    simulated: bool
    replay: bool = False  # a recording is played: nothing of this happens now
    domain: str
    base_model: str
    round: int
    rounds_target: int
    best_version: str | None
    best_score: float | None  # dev mean of the best version
    change: Interval | None  # best against baseline on dev, paired; None when best is the baseline
    spend: Spend
    owner: Owner
    stop_requested: bool
    reason: str | None
    activity: str | None  # "Round 2: training, 12 of 40 steps"; None once ended
    created_at: str
    updated_at: str


class RunPage(BaseModel):
    items: list[RunSummary]
    next_cursor: str | None
    hint: str | None = None  # how to start a run, only when the project has none
    total: int  # runs that match the filter
    counts: dict[
        str, int
    ]  # all | active | paused | finished | stopped | failed, whatever the filter


class StepState(BaseModel):
    """One step of the classic example: baseline, find failures, build data, train, re-evaluate, decide."""

    name: str
    state: str  # done | now | todo | failed
    text: str | None  # its figure: "0.192 on dev, n 240"
    at: str | None


class AuditShape(BaseModel):
    type: str
    version: str | None
    round: int
    verdict: str  # approved | rejected | not_applicable | error
    reasons: list[str]  # first reason first
    at: str


class Gate(BaseModel):
    """What the last gate decided on; intervals are 95 %, the difference is candidate minus best."""

    version: str
    best: str
    verdict: str | None
    reason: str | None
    n: int | None
    coverage: float | None
    score: float | None
    candidate_score: Interval | None
    best_score: Interval | None
    difference: Interval | None
    delta_vs_baseline: float | None
    p_value: float | None
    alpha: float | None
    fixed: int | None
    regressed: int | None
    checks: list[dict[str, Any]] = Field(
        default_factory=list
    )  # {name, ok, text}: each rule of the gate


class Admission(BaseModel):
    """A round's way from planned tasks to rows. A candidate is a right answer, own or helped."""

    planned: int
    asked: int | None  # a family with none right in its first tasks is not asked on
    candidates: int | None
    left_out: dict[str, int]  # why -> candidates that did not become rows
    new_rows: int | None
    replay_rows: int | None
    earlier_rows: int | None  # of earlier rounds, trained again


class Intervention(BaseModel):
    """Something that a round's plan changes, or takes up from people."""

    kind: str  # data | training | steer | directive
    text: str


class Followed(BaseModel):
    """A steer or directive that a plan says it follows, and how."""

    kind: str  # steer | directive
    id: str
    text: str
    how: str


class PlanUse(BaseModel):
    """The round whose plan followed what somebody said, and how."""

    round: int
    how: str


class MemoryUse(BaseModel):
    """The most memory that a training took, as measured; on "cpu" or "cuda"."""

    peak_bytes: int
    on: str


class RoundShape(BaseModel):
    run: str
    round: int
    simulated: bool
    start_version: str
    candidate: str | None
    outcome: str | None
    decision: str | None
    reason: str | None
    hypothesis: str | None
    plan: str | None  # what the round set out to do, in words
    interventions: list[Intervention]
    settings: dict[str, Any]  # the plan as the later phases read it
    rows: int | None
    rows_by_source: dict[str, int]
    rows_by_family: dict[str, int]
    admission: Admission | None
    memory: MemoryUse | None = None  # of the training, where it was measured
    gate: Gate | None
    dev: (
        dict[str, Any] | None
    )  # best, candidate, difference: {mean, low, high}; n, coverage, p_value
    dev_change: Interval | None  # candidate against the baseline on dev, paired
    held_out: dict[str, Any] | None
    guard: dict[str, Any] | None
    audits: list[AuditShape]
    steers: list[str]  # texts that its plan took up
    followed: list[Followed]  # the same and directives, with how
    summary: str
    started_at: str
    ended_at: str | None


class DirectiveShape(BaseModel):
    id: str
    text: str
    author: str
    at: str
    read: list[int] = []  # rounds whose operator has read it
    used: list[PlanUse] = []


class RunStarted(BaseModel):
    """The receipt of a start."""

    run: str
    state: str
    mode: str
    simulated: bool
    domain: str
    round: int
    rounds_target: int
    owner: Owner
    limits: dict[str, float | int | None]  # the three caps in both spellings
    created_at: str


class RunControl(BaseModel):
    """A run after a control request, with the effect already visible."""

    run: str
    state: str
    round: int
    rounds_target: int
    stop_requested: bool


class DirectivePage(BaseModel):
    items: list[DirectiveShape]
    next_cursor: str | None = None


class RoundPage(BaseModel):
    items: list[RoundShape]
    next_cursor: str | None = None


class RunCompact(RunSummary):
    """A list item with where the run stands in a line: cheap to poll."""

    summary: str
    machine: str


class RunDetail(RunCompact):
    brief: str
    limits: dict[str, float | int | None]
    seed: int | None
    steps: list[StepState]
    versions: list[VersionScores]
    gate: Gate | None
    audits: list[AuditShape]
    rounds: list[RoundShape]
    directives: list[DirectiveShape]
    config: dict[str, Any]


class EventShape(BaseModel):
    seq: int
    kind: str  # message tool_call tool_result steer round job error
    role: str  # engine operator teacher student verifier auditor
    text: str
    at: str


class SteerShape(BaseModel):
    id: str
    text: str
    author: str
    status: str  # queued | delivered | dropped
    reason: str | None
    round: int | None
    at: str
    delivered_at: str | None
    used: PlanUse | None = None


class SteerTicket(BaseModel):
    """The receipt of a steer."""

    id: str
    status: str
    at: str


class JobShape(BaseModel):
    job_id: str
    type: str
    round: int | None
    status: str


class Current(BaseModel):
    role: str
    tool: str | None
    started_at: str


class Progress(BaseModel):
    """How far the phase is; done and total count what `text` names."""

    phase: str
    text: str | None
    done: int | None
    total: int | None
    started_at: str | None
    updated_at: str
    seconds_left: float | None


class TrainPointShape(BaseModel):
    step: int
    loss: float


class Live(BaseModel):
    """The live view. `state` shows an end only on the page that has the last event."""

    run: str
    state: str
    run_state: str
    simulated: bool
    reason: str | None  # why it waits, rests or ended
    round: int
    rounds_target: int
    phase: str | None
    current: Current | None
    progress: Progress | None
    events: list[EventShape]
    next_cursor: int
    has_more: bool
    steers: list[SteerShape]
    jobs: list[JobShape]
    spend: Spend
    loss: list[TrainPointShape]  # of the newest training, at most 500 points
    updated_at: str


class DeviceHolder(BaseModel):
    """Who has a device now. `run` or `job` is None where it is another project's."""

    device: str  # cuda:0, cpu
    purpose: str  # train, develop, ..., or serving RUN/candidate-1
    run: str | None
    job: str | None
    since: str
    simulated: bool = False


class DeviceWait(BaseModel):
    """What waits for a device, or for the hours in which rounds may start, and why."""

    run: str | None
    job: str | None
    why: str
    since: str


class OtherProcess(BaseModel):
    """A process on a card that is not ours. Nothing here ever ends it."""

    pid: int
    owner: str | None
    command: str | None
    bytes: int | None


class DeviceMemory(BaseModel):
    """The memory of one device in bytes, as measured."""

    device: str
    name: str
    total: int
    free: int
    others: list[OtherProcess]


class Device(BaseModel):
    """The machine: who holds it, who waits and why, its memory, and who else uses it."""

    name: str
    purpose: str | None
    run: str | None
    waiting: list[str]
    holders: list[DeviceHolder] = []
    waits: list[DeviceWait] = []
    memory: list[DeviceMemory] = []


class MemoryAhead(BaseModel):
    """What a run would take on its device, in bytes: upper bounds with the whole batch and with a
    quarter of it at once, and what the last one like it took."""

    device: str
    usual: int
    least: int
    measured: int | None
    measured_in: str | None
    total: int
    free: int


class PresetShape(BaseModel):
    """A preset that a run can start with, in its author's words."""

    name: str
    words: str
    domain: str | None  # None: any
    rounds: int | None
    base_model: str | None


class StartOptions(BaseModel):
    """What a start form offers."""

    presets: list[PresetShape]
    domains: dict[str, str]  # name -> label
    gateway_models: list[str]
