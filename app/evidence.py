"""Evidence of a run: its rounds with their gates, its versions with their scores, its audits."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from app import paging, receipts, shapes
from app.admission import admissions
from app.errors import NotFound
from data.tables import Audit, Evaluation, Round, Run, Step, TrainingRow, Version


def run_round(session: Session, run: Run, number: int) -> shapes.RoundShape:
    """One round with everything that was decided in it."""
    found = rounds(session, run, [number])
    if not found:
        raise NotFound(f"run {run.id} has not reached round {number}")
    return found[0]


def list_rounds(session: Session, run: Run, limit: int, cursor: str | None) -> shapes.RoundPage:
    """A page of a run's rounds, first to last."""
    numbers, next_cursor = paging.part(range(1, run.round + 1), limit, cursor)
    return shapes.RoundPage(items=rounds(session, run, numbers), next_cursor=next_cursor)


def rounds(session: Session, run: Run, numbers: Iterable[int]) -> list[shapes.RoundShape]:
    """Those of the rounds that the run has reached, first to last; read together, not one by one."""
    reached = [number for number in numbers if number <= run.round]
    query = select(Round).where(Round.run == run.id, col(Round.number).in_(reached))
    rows = session.exec(query.order_by(col(Round.number))).all()
    trained = _trained(session, run.id, reached)
    admitted = admissions(session, run.id, rows)
    measured = _memory(session, run.id, reached)
    audited: defaultdict[int, list[shapes.AuditShape]] = defaultdict(list)
    for audit in audits(session, run.id, reached):
        audited[audit.round].append(audit)
    return [
        _round_shape(
            run,
            row,
            trained[row.number],
            admitted[row.number],
            audited[row.number],
            measured.get(row.number),
        )
        for row in rows
    ]


def _memory(session: Session, run: str, numbers: list[int]) -> dict[int, shapes.MemoryUse]:
    """What the training of each round took at its peak, where it was measured."""
    query = select(Step.round, Step.result).where(
        Step.run == run, Step.step == "train", Step.status == "done", col(Step.round).in_(numbers)
    )
    training = {number: result.get("training") or {} for number, result in session.exec(query)}
    return {
        number: shapes.MemoryUse(peak_bytes=one["peak_bytes"], on=one["peak_on"])
        for number, one in training.items()
        if one.get("peak_bytes")
    }


def _trained(
    session: Session, run: str, numbers: list[int]
) -> dict[int, list[tuple[str, str, int]]]:
    """How many rows of which source and family each round trained on."""
    by = col(TrainingRow.round), col(TrainingRow.source), col(TrainingRow.family)
    query = select(*by, func.count()).where(TrainingRow.run == run, by[0].in_(numbers))
    found: defaultdict[int, list[tuple[str, str, int]]] = defaultdict(list)
    for number, source, family, count in session.exec(query.group_by(*by)):
        found[number].append((source, family, count))
    return found


def _round_shape(
    run: Run,
    row: Round,
    trained: list[tuple[str, str, int]],
    admitted: shapes.Admission | None,
    audited: list[shapes.AuditShape],
    memory: shapes.MemoryUse | None,
) -> shapes.RoundShape:
    """A round's row with its rows by source and family, gate, audits and memory."""
    sources: Counter[str] = Counter()
    families: Counter[str] = Counter()
    for source, family, count in trained:
        sources[source] += count
        families[family] += count
    blind = row.evidence.get("blind") or {}
    followed = receipts.followed(row.plan)
    return shapes.RoundShape(
        run=row.run,
        round=row.number,
        simulated=run.simulated,
        start_version=row.start_version,
        candidate=row.candidate,
        outcome=row.outcome,
        decision=row.decision,
        reason=row.reason,
        hypothesis=row.hypothesis,
        plan=row.hypothesis,
        interventions=interventions(row.plan),
        settings=row.plan,
        rows=row.rows,
        rows_by_source=dict(sources),
        rows_by_family=dict(families),
        admission=admitted,
        memory=memory,
        gate=gate(row),
        dev=_sides(row.evidence.get("dev")),
        dev_change=_change(row),
        held_out=_sides(blind.get("held_out")),
        guard=_sides(blind.get("guard")),
        audits=audited,
        steers=[one.text for one in followed if one.kind == "steer"],
        followed=followed,
        summary=_round_summary(row),
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def interventions(plan: dict[str, Any]) -> list[shapes.Intervention]:
    """What a plan changes, data first, then what it took up from people."""
    families = plan.get("families") or {}
    told = [f"{name}: {one['tasks']} tasks" for name, one in families.items() if one.get("tasks")]
    found = [shapes.Intervention(kind="data", text=text) for text in told]
    training = ", ".join(f"{name} {value}" for name, value in (plan.get("settings") or {}).items())
    if training:
        found.append(shapes.Intervention(kind="training", text=training))
    for one in receipts.followed(plan):
        text = f"{one.text}: {one.how}" if one.how else one.text
        found.append(shapes.Intervention(kind=one.kind, text=text))
    return found


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
        difference=difference(figures),
        delta_vs_baseline=against_base.get("difference"),
        p_value=figures["p_value"],
        alpha=rule.get("alpha"),
        fixed=figures["fixed"],
        regressed=figures["regressed"],
        checks=evidence.get("checks", []),
    )


def audits(session: Session, run: str, numbers: list[int] | None = None) -> list[shapes.AuditShape]:
    """Audit records of a run, or of some of its rounds, oldest first."""
    query = select(Audit).where(Audit.run == run)
    if numbers is not None:
        query = query.where(col(Audit.round).in_(numbers))
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
            col(Evaluation.split).in_(["dev", "blind", "held_out", "guard"]),
            Evaluation.repeat == 0,
        )
        .order_by(col(Evaluation.id))
    ).all()
    by_version: defaultdict[str, list[shapes.Score]] = defaultdict(list)
    for one in scores:
        by_version[one.version].append(_score(one))
    return [
        shapes.VersionScores(
            version=row.name,
            role=row.role,
            trained_rows=row.trained_rows,
            adapter=row.adapter,
            version_hash=row.version_hash,
            simulated=row.simulated,
            scores=by_version[row.name],
        )
        for row in rows
    ]


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
        "difference": difference(figures).model_dump(),
    }


def _change(row: Round) -> shapes.Interval | None:
    figures = row.evidence.get("against_base")
    return difference(figures) if figures else None


def _interval(estimate: dict[str, Any]) -> shapes.Interval:
    return shapes.Interval(mean=estimate["mean"], low=estimate["low"], high=estimate["high"])


def _round_summary(row: Round) -> str:
    if row.outcome is None:
        return "in progress"
    word = (row.decision or row.outcome).replace("_", " ")
    return f"{word}: {row.reason}" if row.reason else word


def difference(figures: dict[str, Any]) -> shapes.Interval:
    return shapes.Interval(mean=figures["difference"], low=figures["low"], high=figures["high"])
