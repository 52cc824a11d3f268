"""Reads of runs: from rows to the shapes that doors and pages show."""

import base64
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, or_, select

from app import shapes
from app.caller import Caller
from app.errors import InvalidRequest, NotFound, RunNotFound
from data.tables import (
    Account,
    Audit,
    Control,
    Directive,
    Evaluation,
    Live,
    Round,
    Run,
    TrainingRow,
    Version,
)

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


def run_round(session: Session, run: Run, number: int) -> shapes.RoundShape:
    """One round with everything that was decided in it."""
    row = session.exec(select(Round).where(Round.run == run.id, Round.number == number)).first()
    if row is None:
        raise NotFound(f"run {run.id} has not reached round {number}")
    return round_shape(session, row)


def round_shape(session: Session, row: Round) -> shapes.RoundShape:
    """A round's row with its rows by source and family, gate and audits."""
    rows = session.exec(
        select(TrainingRow.source, TrainingRow.family, func.count())
        .where(TrainingRow.run == row.run, TrainingRow.round == row.number)
        .group_by(TrainingRow.source, TrainingRow.family)
    ).all()
    sources: Counter[str] = Counter()
    families: Counter[str] = Counter()
    for source, family, count in rows:
        sources[source] += count
        families[family] += count
    blind = row.evidence.get("blind") or {}
    return shapes.RoundShape(
        run=row.run,
        round=row.number,
        start_version=row.start_version,
        candidate=row.candidate,
        outcome=row.outcome,
        decision=row.decision,
        reason=row.reason,
        hypothesis=row.hypothesis,
        plan=row.plan,
        rows=row.rows,
        rows_by_source=dict(sources),
        rows_by_family=dict(families),
        gate=gate(row),
        dev=_sides(row.evidence.get("dev")),
        dev_change=_change(row),
        held_out=_sides(blind.get("held_out")),
        guard=_sides(blind.get("guard")),
        audits=audits(session, row.run, row.number),
        steers=[steer["text"] for steer in row.plan.get("steers", [])],
        summary=_round_summary(row),
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def gate(row: Round) -> shapes.Gate | None:
    """What a round's gate decided on; None when it compared nothing on blind tasks."""
    evidence = row.evidence
    if not evidence.get("blind"):
        return None
    figures, rule = evidence["blind"]["blind"], evidence.get("rule") or {}
    candidate = _interval(figures["candidate"])
    against_base = evidence.get("against_base") or {}
    return shapes.Gate(
        version=evidence["candidate"],
        best=evidence["best"],
        verdict=row.decision,
        reason=row.reason,
        n=figures["n"],
        coverage=figures["coverage"],
        score=candidate.mean,
        candidate_score=candidate,
        best_score=_interval(figures["best"]),
        difference=_difference(figures),
        delta_vs_baseline=against_base.get("difference"),
        p_value=figures["p_value"],
        alpha=rule.get("alpha"),
        fixed=figures["fixed"],
        regressed=figures["regressed"],
        checks=evidence.get("checks", []),
    )


def audits(session: Session, run: str, number: int | None = None) -> list[shapes.AuditShape]:
    """Audit records of a run, or of one round, oldest first."""
    query = select(Audit).where(Audit.run == run)
    if number is not None:
        query = query.where(Audit.round == number)
    return [
        shapes.AuditShape(
            type=row.type,
            version=row.version,
            round=row.round,
            verdict=row.verdict,
            reasons=[reason["text"] for reason in row.reasons],
            at=row.created_at,
        )
        for row in session.exec(query.order_by(col(Audit.id)))
    ]


def versions(session: Session, run: str) -> list[shapes.VersionScores]:
    """Every version of a run with its scores, baseline first."""
    rows = session.exec(select(Version).where(Version.run == run).order_by(col(Version.id))).all()
    scores = session.exec(
        select(Evaluation)
        .where(
            Evaluation.run == run,
            _in(Evaluation.split, ["dev", "blind", "held_out", "guard"]),
            Evaluation.repeat == 0,
        )
        .order_by(col(Evaluation.id))
    ).all()
    return [
        shapes.VersionScores(
            version=row.name,
            role=row.role,
            trained_rows=row.trained_rows,
            adapter=row.adapter,
            version_hash=row.version_hash,
            simulated=row.simulated,
            scores=[_score(one) for one in scores if one.version == row.name],
        )
        for row in rows
    ]


def directives(session: Session, run: str) -> list[shapes.DirectiveShape]:
    """Standing instructions of a run, oldest first."""
    query = select(Directive).where(Directive.run == run).order_by(col(Directive.created_at))
    return [
        shapes.DirectiveShape(id=row.id, text=row.text, author=row.author, at=row.created_at)
        for row in session.exec(query)
    ]


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
        change = _difference(figures) if figures else None
        found[row.id] = (means.get((row.id, row.best_version or "")), change)
    return found


def _score(row: Evaluation) -> shapes.Score:
    return shapes.Score(
        suite=row.suite,
        split=row.split,
        round=row.round,
        mean=row.mean,
        ci_low=row.low,
        ci_high=row.high,
        n=row.scored,
        planned=row.planned,
        coverage=row.scored / row.planned if row.planned else None,
        conservative=row.conservative,
        protocol_hash=row.protocol_hash,
        families=row.families,
        simulated=row.simulated,
    )


def _sides(figures: dict[str, Any] | None) -> dict[str, Any] | None:
    if not figures or not figures["asked"]:
        return None
    return {
        "n": figures["n"],
        "coverage": figures["coverage"],
        "p_value": figures["p_value"],
        "best": _interval(figures["best"]).model_dump(),
        "candidate": _interval(figures["candidate"]).model_dump(),
        "difference": _difference(figures).model_dump(),
    }


def _change(row: Round) -> shapes.Interval | None:
    figures = row.evidence.get("against_base")
    return _difference(figures) if figures else None


def _interval(estimate: dict[str, Any]) -> shapes.Interval:
    return shapes.Interval(mean=estimate["mean"], low=estimate["low"], high=estimate["high"])


def _difference(figures: dict[str, Any]) -> shapes.Interval:
    return shapes.Interval(mean=figures["difference"], low=figures["low"], high=figures["high"])


def _round_summary(row: Round) -> str:
    if row.outcome is None:
        return "in progress"
    word = (row.decision or row.outcome).replace("_", " ")
    return f"{word}: {row.reason}" if row.reason else word


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
