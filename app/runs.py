"""The list of runs: from rows to list items, with spend, activity and best score."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import case, func, tuple_
from sqlmodel import Session, col, or_, select

from app import paging, shapes
from app.caller import Caller
from app.errors import InvalidRequest, RunNotFound
from app.evidence import difference
from app.pending import Shown, shown
from data.tables import Account, Evaluation, Job, Live, Round, Run

MICRO = 1_000_000
STATES = {"starting", "running", "paused", "finished", "failed", "stopped"}
WORKING = ("starting", "running")
HINT = (
    'Start one with "python3 run.py demo", which needs no key and no GPU,'
    " or POST one here: GET /v1/openapi.json has the fields."
)


def find_run(session: Session, caller: Caller, run: str) -> Run:
    """A run that the caller can see; a foreign one looks exactly like a missing one."""
    row = session.exec(select(Run).where(Run.id == run, visible_to(caller))).first()
    if row is None:
        raise RunNotFound(f"there is no run {run}; see the list of runs")
    return row


def visible_to(caller: Caller) -> Any:
    """The runs of the caller's project: started there, or named by the label of a job there."""
    started = (col(Run.workspace_id) == caller.workspace_id) & (
        col(Run.project_id) == caller.project_id
    )
    readable = func.json_valid(Job.labels)  # one broken row must not spoil the query
    label = case((readable, func.json_extract(Job.labels, "$.rsi_run")))
    named = select(label).where(Job.project_id == caller.project_id, Job.type == "train")
    # By an index on the id every label would be read for every query; so only where a foreign run
    # is met.
    return or_(started, col(Run.id).concat("").in_(named))


def list_runs(
    session: Session,
    caller: Caller,
    *,
    limit: int,
    cursor: str | None,
    state: str | None,
    q: str | None,
) -> shapes.RunPage:
    """A page of the project's runs, newest first."""
    if state is not None and state not in STATES | {"active"}:
        raise InvalidRequest(f"state: {state!r} is not one of {sorted(STATES)}")
    query = _matching(caller, state, q)
    total = session.exec(select(func.count()).select_from(query.subquery())).one()
    rows, next_cursor = paging.newest_first(session, query, Run, limit, cursor)
    counts = _counts(session, caller)
    return shapes.RunPage(
        items=summaries(session, rows),
        next_cursor=next_cursor,
        hint=None if counts["all"] else HINT,
        total=total,
        counts=counts,
    )


def summaries(session: Session, rows: Sequence[Run]) -> list[shapes.RunSummary]:
    """Runs as list items, with their spend, activity and best score."""
    ids = [row.id for row in rows]
    accounts = _by(session.exec(select(Account).where(_in(Account.id, [f"run:{i}" for i in ids]))))
    lives = {live.run: live for live in session.exec(select(Live).where(_in(Live.run, ids)))}
    asked = shown(session, rows)
    scores = _best_scores(session, rows)
    return [
        shapes.RunSummary(
            run=row.id,
            state=asked[row.id].state,
            mode=row.mode,
            simulated=row.simulated,
            replay="replay" in row.config,
            domain=row.domain,
            base_model=row.base_model,
            round=row.round,
            rounds_target=asked[row.id].rounds_target,
            best_version=row.best_version,
            best_score=scores[row.id][0],
            change=scores[row.id][1],
            spend=spend(accounts.get(f"run:{row.id}"), row, asked[row.id].limits),
            owner=shapes.Owner(
                workspace_id=row.workspace_id, project_id=row.project_id, actor=row.actor
            ),
            stop_requested=asked[row.id].stop_requested,
            reason=asked[row.id].reason,
            activity=activity(row, asked[row.id], lives.get(row.id)),
            created_at=row.created_at,
            updated_at=_latest(row, lives.get(row.id)),
        )
        for row in rows
    ]


def spend(account: Account | None, run: Run, limits: Mapping[str, Any]) -> shapes.Spend:
    """What a run has cost so far, beside the caps of `limits`."""
    account = account or Account(id=f"run:{run.id}", project_id=run.project_id)
    return shapes.Spend(
        model_usd=account.model_settled / MICRO,
        gpu_usd=account.device_settled / MICRO,
        total_usd=(account.model_settled + account.device_settled) / MICRO,
        uncertain_usd=account.model_uncertain / MICRO,
        reserved_usd=(account.model_reserved + account.device_reserved) / MICRO,
        model_requests=account.requests,
        device_seconds=account.device_ms / 1000,
        max_model_cost_usd=limits.get("max_model_cost_usd"),
        max_cost_usd=limits.get("max_cost_usd"),
    )


def activity(run: Run, asked: Shown, live: Live | None) -> str | None:
    """What the run does now, in a line; None once it has ended."""
    if asked.state not in ("starting", "running", "paused"):
        return None
    if live is None or live.phase is None:
        return asked.reason or ("Starting" if asked.state == "starting" else None)
    where = f"Round {live.round}: " if live.round else ""
    counted = f", {live.done} of {live.total} {live.text}" if live.total else ""
    return f"{where}{live.phase.replace('_', ' ')}{counted}"


def _matching(caller: Caller, state: str | None, q: str | None) -> Any:
    query = select(Run).where(visible_to(caller))
    if state is not None:
        query = query.where(_in(Run.state, WORKING if state == "active" else [state]))
    if q:
        query = query.where(col(Run.id).contains(q, autoescape=True))
    return query


def _counts(session: Session, caller: Caller) -> dict[str, int]:
    rows = session.exec(
        select(Run.state, func.count()).where(visible_to(caller)).group_by(Run.state)
    ).all()
    found = dict(rows)
    counts = {state: found.get(state, 0) for state in ("paused", "finished", "stopped", "failed")}
    active = sum(found.get(state, 0) for state in WORKING)
    return {"all": sum(found.values()), "active": active} | counts


def _best_scores(
    session: Session, rows: Sequence[Run]
) -> dict[str, tuple[float | None, shapes.Interval | None]]:
    """Dev mean of each run's best version, and its paired change against the baseline."""
    best = {row.id: row.best_version for row in rows if row.best_version is not None}
    measured = select(Evaluation.run, Evaluation.mean).where(
        _in(Evaluation.run, best),  # for the index, which a pair of columns does not use
        tuple_(col(Evaluation.run), col(Evaluation.version)).in_(best.items()),
        Evaluation.split == "dev",
        Evaluation.repeat == 0,
    )
    means = dict(session.exec(measured).all())
    gained = select(Round.run, Round.evidence).where(
        _in(Round.run, best), tuple_(col(Round.run), col(Round.candidate)).in_(best.items())
    )
    against_base = {run: evidence.get("against_base") for run, evidence in session.exec(gained)}
    changes = {run: difference(figures) for run, figures in against_base.items() if figures}
    return {row.id: (means.get(row.id), changes.get(row.id)) for row in rows}


def _latest(run: Run, live: Live | None) -> str:
    return max(run.updated_at, live.updated_at) if live else run.updated_at


def _in(column: Any, values: Iterable[Any]) -> Any:
    return col(column).in_(list(values))


def _by(rows: Iterable[Account]) -> dict[str, Account]:
    return {row.id: row for row in rows}
