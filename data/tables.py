"""The tables: what Pawl remembers. One class a table; times are ISO 8601 UTC, money micro-dollars.

Who writes what is fixed (no column has two writers): doors insert runs, people's things, directives,
steers and control requests; the engine writes everything that a run produces.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, Column, Index, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from data.records import Record

SCHEMA_VERSION = 4

INSERTED = text("rowid")  # orders by who came first, whatever the clock said then


def now() -> str:
    """The present moment as ISO 8601 UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json() -> Any:
    return Field(default_factory=dict, sa_column=Column(JSON, nullable=False))


def _record() -> Any:
    """Like `_json`, where a row that cannot be read must not take others with it."""
    return Field(default_factory=dict, sa_column=Column(Record, nullable=False))


def _json_list() -> Any:
    return Field(default_factory=list, sa_column=Column(JSON, nullable=False))


def _no() -> Any:
    """False, also in rows that are older than the column."""
    return Field(default=False, sa_column_kwargs={"server_default": text("0")})


def _no_list() -> Any:
    """An empty list, also in rows that are older than the column."""
    return Field(
        default_factory=list,
        sa_column=Column(JSON, nullable=False, server_default=text("'[]'")),
    )


# People, access, settings (written by the doors)


class Project(SQLModel, table=True):
    id: str = Field(primary_key=True)
    workspace_id: str
    name: str
    created_at: str = Field(default_factory=now)


class User(SQLModel, table=True):
    id: str = Field(primary_key=True)
    name: str = Field(unique=True)
    role: str  # viewer | developer | admin
    password_hash: str | None = None
    created_at: str = Field(default_factory=now)
    signed_in_at: str | None = None


class ApiKey(SQLModel, table=True):
    """A key by its SHA-256; the key itself is shown once and never stored."""

    id: str = Field(primary_key=True)
    project_id: str = Field(foreign_key="project.id")
    name: str
    key_hash: str = Field(unique=True)
    capabilities: list[str] = _json_list()
    created_at: str = Field(default_factory=now)
    expires_at: str | None = None
    last_used_at: str | None = None
    revoked_at: str | None = None
    made_by: str | None = None  # a name for people to read
    user_id: str | None = None  # the person it stands for: their role bounds it, it ends with them


class SignIn(SQLModel, table=True):
    """A signed-in browser, or a one-time link that has not been used yet; by the token's SHA-256."""

    token_hash: str = Field(primary_key=True)
    kind: str  # session | link
    user_id: str = Field(foreign_key="user.id")
    created_at: str = Field(default_factory=now)
    expires_at: str
    ended_at: str | None = None


class FailedSignIn(SQLModel, table=True):
    """How often sign-in failed for an account or from an address, so that guessing has to wait."""

    subject: str = Field(primary_key=True)  # "account:ann", "address:10.0.0.7"
    failures: int = 0
    last_at: str = Field(default_factory=now)


class CliGrant(SQLModel, table=True):
    """A command line that asks a signed-in person for a key; it alone knows key, token and code."""

    id: str = Field(primary_key=True)  # UUID version 4
    key_hash: str = Field(unique=True)
    poll_hash: str
    code_hash: str
    address: str  # where the command line asked from
    status: str = "pending"  # pending | approved | denied | cancelled
    attempts: int = 0  # wrong codes so far
    workspace_id: str | None = None
    project_id: str | None = None
    created_at: str = Field(default_factory=now)
    expires_at: str


class Setting(SQLModel, table=True):
    name: str = Field(primary_key=True)
    value: str
    updated_at: str = Field(default_factory=now)


class GatewayModel(SQLModel, table=True):
    """A model behind the gateway with its price in micro-dollars per million tokens.

    Its key is named, never held: an environment variable of the server, or a file of its owner.
    """

    name: str = Field(primary_key=True)
    base_url: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    local: bool = _no()  # an administrator's word that it runs on this machine or network
    role: str | None = None
    input_micro_per_mtok: int
    output_micro_per_mtok: int
    cached_micro_per_mtok: int | None = None
    tiers: list[dict[str, int]] = (
        _no_list()
    )  # prices of long requests: above, input, output, cached
    simulated: bool = False
    blocked: str | None = None  # why nobody may call it until an administrator confirms it
    created_at: str = Field(default_factory=now)


# A run and what people say to it (inserted by the doors; state, status moved by the engine)


class Run(SQLModel, table=True):
    id: str = Field(primary_key=True)
    project_id: str = Field(foreign_key="project.id", index=True)
    workspace_id: str
    actor: str
    brief: str
    domain: str
    mode: str  # live | dry
    simulated: bool = False
    base_model: str
    config: dict[str, Any] = _record()  # the effective preset, limits and models of this run
    limits: dict[str, Any] = _record()
    seed: int | None = None  # set: repeatable, blind tasks follow from it
    secret: str  # 64 hex digits; never leaves the engine
    state: str = "starting"
    reason: str | None = None
    rounds_target: int = 3
    round: int = 0
    best_version: str | None = None
    created_at: str = Field(default_factory=now, index=True)
    updated_at: str = Field(default_factory=now, index=True)
    ended_at: str | None = None
    start_after: str | None = None  # the engine does not take the run up before


class Directive(SQLModel, table=True):
    id: str = Field(primary_key=True)
    project_id: str
    run: str = Field(foreign_key="run.id", index=True)
    text: str
    author: str
    created_at: str = Field(default_factory=now)


class Steer(SQLModel, table=True):
    id: str = Field(primary_key=True)
    project_id: str
    run: str = Field(foreign_key="run.id", index=True)
    text: str
    author: str
    status: str = "queued"  # queued | delivered | dropped
    reason: str | None = None
    round: int | None = None  # the round whose plan it was delivered to
    created_at: str = Field(default_factory=now)
    delivered_at: str | None = None


class Control(SQLModel, table=True):
    """A request to stop, resume or extend a run; the engine carries it out at its boundary."""

    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    run: str = Field(foreign_key="run.id", index=True)
    action: str  # stop | resume | extend
    rounds: int | None = None
    limits: dict[str, Any] = _json()
    author: str
    status: str = "requested"  # requested | done | refused
    created_at: str = Field(default_factory=now)
    done_at: str | None = None
    after_round: int | None = None  # rounds there were when it was done


# What a run produces (written by the engine)


class Round(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("run", "number"),)
    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    run: str = Field(foreign_key="run.id", index=True)
    number: int
    start_version: str  # name of the best version that this round starts from
    plan: dict[str, Any] = _record()
    hypothesis: str | None = None  # the plan in a sentence
    rows: int | None = None
    candidate: str | None = None
    outcome: str | None = None  # completed | failed | stopped
    decision: str | None = None  # promote | reject | inconclusive | not_evaluated
    reason: str | None = None
    evidence: dict[str, Any] = _record()  # the gate's figures, as decided on
    started_at: str = Field(default_factory=now)
    ended_at: str | None = None


class Harness(SQLModel, table=True):
    """How a model is asked and read."""

    id: str = Field(primary_key=True)  # content hash
    project_id: str
    spec: dict[str, Any] = _json()
    created_at: str = Field(default_factory=now)


class Version(SQLModel, table=True):
    """What is evaluated: base model, adapter or none, harness."""

    __table_args__ = (UniqueConstraint("run", "name"),)
    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    run: str | None = Field(default=None, foreign_key="run.id", index=True)
    name: str  # base, candidate-1, ...
    role: str  # baseline | candidate
    round: int | None = None
    base_model: str
    base_revision: str
    adapter: str | None = None  # checkpoint hash
    harness: str = Field(foreign_key="harness.id")
    version_hash: str
    trained_rows: int | None = None
    simulated: bool = False
    created_at: str = Field(default_factory=now)


class Checkpoint(SQLModel, table=True):
    id: str = Field(primary_key=True)  # content hash of the adapter
    project_id: str
    run: str | None = Field(default=None, index=True)
    round: int | None = None
    job: str | None = None
    base_model: str
    base_revision: str
    size_bytes: int
    training: dict[str, Any] = _json()  # settings and figures of the training
    simulated: bool = False
    created_at: str = Field(default_factory=now)
    deleted_at: str | None = None  # its folder was removed; the row stays
    name: str | None = None  # what a person called it at its import


class Task(SQLModel, table=True):
    """A task that people may read. A blind task appears here only once its gate is decided."""

    __table_args__ = (UniqueConstraint("run", "split", "family", "number"),)
    row: int | None = Field(default=None, primary_key=True)
    id: str = Field(index=True)
    project_id: str
    run: str = Field(foreign_key="run.id", index=True)
    split: str
    family: str
    family_version: str
    number: int  # index in its seed stream
    round: int | None = None
    prompt: str
    stratum: str
    canonical_key: str
    template_id: str
    worked: str


class Draw(SQLModel, table=True):
    """The next unused index of each (run, split, family), so that fresh means fresh."""

    run: str = Field(primary_key=True)
    split: str = Field(primary_key=True)
    family: str = Field(primary_key=True)
    next_index: int


class Evaluation(SQLModel, table=True):
    """One version scored on one suite or split under one protocol."""

    __table_args__ = (UniqueConstraint("run", "round", "version", "suite", "split", "repeat"),)
    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    run: str | None = Field(default=None, foreign_key="run.id", index=True)
    job: str | None = Field(default=None, index=True)  # of a job that no loop started
    round: int  # 0: prepare
    version: str
    version_hash: str
    suite: str  # the domain's name, or guard
    split: str
    repeat: int = 0
    protocol_hash: str
    protocol: dict[str, Any] = _record()
    planned: int
    scored: int
    mean: float | None
    low: float | None
    high: float | None
    conservative: float | None  # mean with missing verdicts counted as wrong
    families: dict[str, Any] = _record()  # family -> {mean, n}
    simulated: bool = False
    seconds: float = 0.0
    created_at: str = Field(default_factory=now)


class Sample(SQLModel, table=True):
    """The recorded outcome of one task in one evaluation, diagnosis or collection."""

    __table_args__ = (UniqueConstraint("evaluation", "task", "attempt"),)
    id: int | None = Field(default=None, primary_key=True)
    evaluation: int = Field(foreign_key="evaluation.id", index=True)
    project_id: str
    run: str | None = None
    task: str = Field(index=True)
    family: str
    stratum: str
    attempt: int = 0
    text: str | None
    parsed: str | None = None
    score: float | None  # None: no verdict, never 0
    reason: str
    tokens_in: int = 0
    tokens_out: int = 0


class TrainingRow(SQLModel, table=True):
    """One admitted training example with its lineage."""

    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    run: str = Field(foreign_key="run.id", index=True)
    round: int
    family: str  # or "replay"
    stratum: str
    task: str | None = None
    canonical_key: str | None = None
    source: str  # student | teacher | reworded (by the teacher) | generator | replay
    source_model: str | None = None
    messages: list[dict[str, str]] = _json_list()
    completion: str
    ends: bool = True
    verifier: str | None = None  # name and source hash
    row_hash: str
    simulated: bool = False


class Audit(SQLModel, table=True):
    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    run: str = Field(foreign_key="run.id", index=True)
    round: int
    type: str
    version: str | None = None
    phase: str
    verdict: str  # approved | rejected | not_applicable | error
    reasons: list[dict[str, Any]] = _json_list()  # {code, text}; first reason first
    tool: dict[str, Any] = _json()
    created_at: str = Field(default_factory=now)


class Event(SQLModel, table=True):
    __table_args__ = (Index("event_run_seq", "run", "seq", unique=True),)
    id: int | None = Field(default=None, primary_key=True)
    run: str
    seq: int  # from 1, strictly rising in a run
    kind: str  # message tool_call tool_result steer round job error
    role: str = "engine"
    tool: str | None = None
    text: str  # one line, at most 500 characters
    at: str = Field(default_factory=now)


class Live(SQLModel, table=True):
    """What a run does at this moment; one row a run, overwritten."""

    run: str = Field(primary_key=True)
    round: int = 0
    phase: str | None = None
    role: str | None = None
    tool: str | None = None
    text: str | None = None
    done: int | None = None
    total: int | None = None
    started_at: str | None = None  # of the phase
    first_done: int | None = None  # where the count began; after a resumption in its middle
    first_at: str | None = None
    updated_at: str = Field(default_factory=now)


class TrainPoint(SQLModel, table=True):
    """One point of a loss curve; a resumed attempt replaces the overlap."""

    run: str = Field(primary_key=True)
    round: int = Field(primary_key=True)
    step: int = Field(primary_key=True)
    loss: float
    seconds: float  # since the first attempt began


class Job(SQLModel, table=True):
    """Work that people list: a loop's training or bookkeeping, or work submitted by hand."""

    __table_args__ = (Index("job_created_at", "created_at"),)
    id: str = Field(primary_key=True)
    project_id: str
    run: str | None = Field(default=None, index=True)
    round: int | None = None
    type: str  # train | inference | agent | sandbox
    status: str = "queued"
    reason: str | None = None
    labels: dict[str, str] = _record()
    spec: dict[str, Any] = _json()
    result: dict[str, Any] = _json()
    bookkeeping: bool = False
    request_id: str | None = None
    created_at: str = Field(default_factory=now)
    updated_at: str = Field(default_factory=now)
    finished_at: str | None = None


class JobControl(SQLModel, table=True):
    """A request to end, pause, resume or wake a job that no loop started; the engine does it."""

    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    job: str = Field(foreign_key="job.id", index=True)
    action: str  # stop | pause | resume | wake
    author: str
    status: str = "requested"  # requested | done | refused
    created_at: str = Field(default_factory=now)
    done_at: str | None = None


class EndpointUse(SQLModel, table=True):
    """The calls of a deployed version in one hour: who asked, how much; never what was said."""

    __table_args__ = (UniqueConstraint("job", "hour", "actor", "kind", "status"),)
    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    job: str
    hour: str  # such as "2026-11-30T17", in UTC
    actor: str
    kind: str  # chat | completion
    status: str  # answered | broken (the caller left, or the engine failed)
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    last_at: str = Field(default_factory=now)


class Step(SQLModel, table=True):
    """The step journal: an intent before, a result after; a recorded result is never done again."""

    __table_args__ = (UniqueConstraint("run", "round", "step", "attempt"),)
    id: int | None = Field(default=None, primary_key=True)
    run: str = Field(index=True)
    round: int
    step: str
    attempt: int = 1
    epoch: int  # which server start did it
    status: str = "intent"  # intent | done | failed | interrupted
    result: dict[str, Any] = _json()
    error: str | None = None
    device_seconds: float = 0.0
    started_at: str = Field(default_factory=now)
    ended_at: str | None = None


# Money, device, processes (written by the engine)


class Account(SQLModel, table=True):
    """Running totals and caps of one account: run:ID, key:ID or project:ID.

    The engine writes the totals, and a run's caps out of its limits; a project's caps are an
    administrator's.
    """

    id: str = Field(primary_key=True)
    project_id: str
    model_settled: int = 0
    model_uncertain: int = 0  # part of settled whose true cost is unknown
    model_reserved: int = 0
    device_settled: int = 0
    device_reserved: int = 0
    requests: int = 0
    device_ms: int = 0  # device time, priced or not
    model_cap: int | None = None
    total_cap: int | None = None
    requests_cap: int | None = None


class Reservation(SQLModel, table=True):
    """One paid attempt: reserved at its worst case, then settled once."""

    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    run: str | None = Field(default=None, index=True)
    kind: str  # model | device
    accounts: list[str] = _json_list()
    amount: int
    actual: int | None = None
    state: str = "open"  # open | settled | uncertain | released
    note: str | None = None
    created_at: str = Field(default_factory=now)
    settled_at: str | None = None


class LedgerEntry(SQLModel, table=True):
    """Append-only: every change of an account, with the reservation it belongs to."""

    __table_args__ = (Index("ledgerentry_account_at", "account", "at"),)
    id: int | None = Field(default=None, primary_key=True)
    account: str = Field(index=True)
    reservation: int | None = None
    kind: str  # reserve | settle | uncertain | release
    category: str  # model | device
    amount: int
    at: str = Field(default_factory=now)


class ModelCall(SQLModel, table=True):
    """One attempt at one call through the gateway, journaled so that it is never sent twice.

    `cost` is what it is charged at, in micro-dollars, once it has ended; 0 when it was `failed`.
    `usage` has finish, the provider's own record as `raw` and, where that tells them, input_tokens
    (cached ones among them), cached_tokens, output_tokens. `price` is what was known when it was
    reserved.
    """

    __table_args__ = (
        UniqueConstraint("run", "round", "step", "call_key", "attempt"),
        Index("modelcall_run_round_role", "run", "round", "role"),
        Index("modelcall_run_started", "run", "started_at"),
        Index("modelcall_project_started", "project_id", "started_at"),
        Index("modelcall_reservation", "reservation"),
        Index("modelcall_status", "status"),
    )
    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    run: str | None = Field(default=None, index=True)
    round: int = 0
    step: str
    call_key: str
    attempt: int = 1
    role: str  # operator | teacher | student | auditor
    model: str
    simulated: bool = False
    request_hash: str
    reservation: int | None = None
    status: str = "sent"  # sent | answered | failed (it cost nothing) | uncertain (no answer)
    text: str | None = None
    usage: dict[str, Any] = _json()
    price: dict[str, Any] = _json()
    max_tokens: int | None = None  # as sent: near a cap fewer than were asked for
    cost: int | None = None
    uncertain: bool = _no()  # its whole reservation is charged, since nobody can tell
    error: str | None = None
    started_at: str = Field(default_factory=now)
    ended_at: str | None = None


class Lease(SQLModel, table=True):
    """Who holds a device and why; ended leases stay as the record of device time."""

    id: int | None = Field(default=None, primary_key=True)
    project_id: str
    device: str
    run: str | None = Field(default=None, index=True)
    job: str | None = None  # of work that no loop started
    round: int | None = None
    purpose: str
    reservation: int | None = None
    active_ms: int = 0
    state: str = "held"  # held | ended
    started_at: str = Field(default_factory=now)
    renewed_at: str = Field(default_factory=now)
    ended_at: str | None = None


class Child(SQLModel, table=True):
    """A process that Pawl started; ended at the next start when its server died."""

    id: int | None = Field(default=None, primary_key=True)
    pid: int
    pgid: int
    started: str  # start time as the kernel tells it
    command: str
    purpose: str
    ended_at: str | None = None


class Server(SQLModel, table=True):
    """One row a server start; its id is the ownership epoch."""

    epoch: int | None = Field(default=None, primary_key=True)
    pid: int
    started_at: str = Field(default_factory=now)
    ended_at: str | None = None
