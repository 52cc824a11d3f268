"""The list of runs: from rows to list items, with spend, activity and best score."""

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, or_, select

from app import shapes
from app.caller import Caller
from app.errors import InvalidRequest, RunNotFound
from app.evidence import difference
from data.tables import Account, Control, Evaluation, Live, Round, Run

MICRO = 1_000_000
STATES = {"starting", "running", "paused", "finished", "failed", "stopped"}
WORKING = ("starting", "running")
HINT = 'Start one with "python3 run.py demo", which needs no key and no GPU.'


def find_run(session: Session, caller: Caller, run: str) -> Run:
    """A run that the caller can see; a foreign one looks exactly like a missing one."""
    row = session.get(Run, run)
    if row is None or row.project_id != caller.project_id:
        raise RunNotFound(f"no run {run}")
    return row


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
    if cursor:
        at, run = _read_cursor(cursor)
        query = query.where(
            or_(col(Run.created_at) < at, (col(Run.created_at) == at) & (col(Run.id) < run))
        )
    ordered = query.order_by(col(Run.created_at).desc(), col(Run.id).desc())
    rows = list(session.exec(ordered.limit(limit + 1)))
    counts = _counts(session, caller)
    return shapes.RunPage(
        items=summaries(session, rows[:limit]),
        next_cursor=_cursor(rows[limit - 1]) if len(rows) > limit else None,
        hint=None if counts["all"] else HINT,
        total=total,
        counts=counts,
    )


def summaries(session: Session, rows: Sequence[Run]) -> list[shapes.RunSummary]:
    """Runs as list items, with their spend, activity and best score."""
    ids = [row.id for row in rows]
    accounts = _by(session.exec(select(Account).where(_in(Account.id, [f"run:{i}" for i in ids]))))
    lives = {live.run: live for live in session.exec(select(Live).where(_in(Live.run, ids)))}
    stopping = set(
        session.exec(
            select(Control.run).where(
                _in(Control.run, ids), Control.action == "stop", Control.status == "requested"
            )
        )
    )
    scores = _best_scores(session, rows)
    return [
        shapes.RunSummary(
            run=row.id,
            state=row.state,
            mode=row.mode,
            simulated=row.simulated,
            domain=row.domain,
            base_model=row.base_model,
            round=row.round,
            rounds_target=row.rounds_target,
            best_version=row.best_version,
            best_score=scores[row.id][0],
            change=scores[row.id][1],
            spend=spend(accounts.get(f"run:{row.id}"), row),
            owner=shapes.Owner(
                workspace_id=row.workspace_id, project_id=row.project_id, actor=row.actor
            ),
            stop_requested=row.id in stopping,
            reason=row.reason,
            activity=activity(row, lives.get(row.id)),
            created_at=row.created_at,
            updated_at=_latest(row, lives.get(row.id)),
        )
        for row in rows
    ]


def spend(account: Account | None, run: Run) -> shapes.Spend:
    """What a run has cost so far."""
    account = account or Account(id=f"run:{run.id}", project_id=run.project_id)
    return shapes.Spend(
        model_usd=account.model_settled / MICRO,
        gpu_usd=account.device_settled / MICRO,
        total_usd=(account.model_settled + account.device_settled) / MICRO,
        uncertain_usd=account.model_uncertain / MICRO,
        reserved_usd=(account.model_reserved + account.device_reserved) / MICRO,
        model_requests=account.requests,
        device_seconds=account.device_ms / 1000,
        max_model_cost_usd=run.limits.get("max_model_cost_usd"),
        max_cost_usd=run.limits.get("max_cost_usd"),
    )


def activity(run: Run, live: Live | None) -> str | None:
    """What the run does now, in a line; None once it has ended."""
    if run.state not in ("starting", "running", "paused"):
        return None
    if live is None or live.phase is None:
        return run.reason or ("Starting" if run.state == "starting" else None)
    where = f"Round {live.round}: " if live.round else ""
    counted = f", {live.done} of {live.total} {live.text}" if live.total else ""
    return f"{where}{live.phase.replace('_', ' ')}{counted}"


def _matching(caller: Caller, state: str | None, q: str | None) -> Any:
    query = select(Run).where(Run.project_id == caller.project_id)
    if state is not None:
        query = query.where(_in(Run.state, WORKING if state == "active" else [state]))
    if q:
        query = query.where(col(Run.id).contains(q, autoescape=True))
    return query


def _counts(session: Session, caller: Caller) -> dict[str, int]:
    rows = session.exec(
        select(Run.state, func.count())
        .where(Run.project_id == caller.project_id)
        .group_by(Run.state)
    ).all()
    found = dict(rows)
    counts = {state: found.get(state, 0) for state in ("paused", "finished", "stopped", "failed")}
    active = sum(found.get(state, 0) for state in WORKING)
    return {"all": sum(found.values()), "active": active} | counts


def _best_scores(
    session: Session, rows: Sequence[Run]
) -> dict[str, tuple[float | None, shapes.Interval | None]]:
    """Dev mean of each run's best version, and its paired change against the baseline."""
    ids = [row.id for row in rows]
    means = {
        (one.run, one.version): one.mean
        for one in session.exec(
            select(Evaluation).where(
                _in(Evaluation.run, ids), Evaluation.split == "dev", Evaluation.repeat == 0
            )
        )
    }
    changes = {
        (one.run, one.candidate): one.evidence.get("against_base")
        for one in session.exec(select(Round).where(_in(Round.run, ids)))
    }
    found: dict[str, tuple[float | None, shapes.Interval | None]] = {}
    for row in rows:
        figures = changes.get((row.id, row.best_version))
        change = difference(figures) if figures else None
        found[row.id] = (means.get((row.id, row.best_version or "")), change)
    return found


def _latest(run: Run, live: Live | None) -> str:
    return max(run.updated_at, live.updated_at) if live else run.updated_at


def _cursor(row: Run) -> str:
    return base64.urlsafe_b64encode(json.dumps([row.created_at, row.id]).encode()).decode()


def _read_cursor(cursor: str) -> tuple[str, str]:
    try:
        at, run = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return str(at), str(run)
    except ValueError:
        raise InvalidRequest("cursor: not one that this server gave out") from None


def _in(column: Any, values: Iterable[Any]) -> Any:
    return col(column).in_(list(values))


def _by(rows: Iterable[Account]) -> dict[str, Account]:
    return {row.id: row for row in rows}
