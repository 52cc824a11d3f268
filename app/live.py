"""The live view of a run: what it does now, its newest events, steers, jobs and loss."""

from datetime import UTC, datetime

from sqlalchemy import func
from sqlmodel import Session, col, select

from app import receipts, shapes
from app.job_status import status_of
from app.pending import shown
from app.runs import spend
from data.tables import Account, Event, Job, Live, Run, TrainPoint

EVENTS = 200
POINTS = 500
LARGEST = 2**63 - 1  # integer that the database knows


def run_live(
    session: Session, run: Run, since: int, limit: int = EVENTS, newest: bool = False
) -> shapes.Live:
    """Events after `since`, oldest first, with everything else as it is now.

    With `newest` only the last `limit` of them.

    While a page does not hold the last event of a run that has ended, `state` says running, so
    that a reader who stops at an end state has read everything.
    """
    last = session.exec(select(func.max(Event.seq)).where(Event.run == run.id)).one() or 0
    since = max(since, last - limit) if newest else since
    query = select(Event).where(Event.run == run.id, Event.seq > min(since, LARGEST))
    events = session.exec(query.order_by(col(Event.seq)).limit(limit)).all()
    cursor = events[-1].seq if events else since
    live = session.get(Live, run.id)
    has_more = cursor < last
    asked = shown(session, [run])[run.id]
    return shapes.Live(
        run=run.id,
        state="running" if asked.is_over and has_more else asked.state,
        run_state=asked.state,
        simulated=run.simulated,
        reason=asked.reason,
        round=run.round,
        rounds_target=asked.rounds_target,
        phase=live.phase if live else None,
        current=_current(live),
        progress=progress_of(live),
        events=[_event(row) for row in events],
        next_cursor=cursor,
        has_more=has_more,
        steers=receipts.steers(session, run.id),
        jobs=_jobs(session, run.id, asked.stop_requested),
        spend=spend(session.get(Account, f"run:{run.id}"), run, asked.limits),
        loss=_loss(session, run),
        updated_at=max(run.updated_at, live.updated_at) if live else run.updated_at,
    )


def _current(live: Live | None) -> shapes.Current | None:
    if live is None or live.role is None or live.started_at is None:
        return None
    return shapes.Current(role=live.role, tool=live.tool, started_at=live.started_at)


def progress_of(live: Live | None) -> shapes.Progress | None:
    """How far the phase is that is under way; None before the first."""
    if live is None or live.phase is None:
        return None
    return shapes.Progress(
        phase=live.phase,
        text=live.text,
        done=live.done,
        total=live.total,
        started_at=live.started_at,
        updated_at=live.updated_at,
        seconds_left=_seconds_left(live),
    )


def _seconds_left(live: Live) -> float | None:
    """At the pace since the count began; None until there is one."""
    if live.done is None or not live.total or live.first_done is None or live.first_at is None:
        return None
    counted = live.done - live.first_done
    if counted <= 0:
        return None
    elapsed = (datetime.now(UTC) - datetime.fromisoformat(live.first_at)).total_seconds()
    return max(0.0, elapsed / counted * (live.total - live.done))


def _event(row: Event) -> shapes.EventShape:
    return shapes.EventShape(seq=row.seq, kind=row.kind, role=row.role, text=row.text, at=row.at)


def _jobs(session: Session, run: str, stopping: bool) -> list[shapes.JobShape]:
    query = select(Job).where(Job.run == run).order_by(col(Job.created_at))
    return [
        shapes.JobShape(
            job_id=row.id, type=row.type, round=row.round, status=status_of(row, stopping)
        )
        for row in session.exec(query)
    ]


def _loss(session: Session, run: Run) -> list[shapes.TrainPointShape]:
    """The loss curve of the newest training, thinned to at most 500 points."""
    newest = select(func.max(TrainPoint.round)).where(TrainPoint.run == run.id)
    round_ = session.exec(newest).one()
    if round_ is None:
        return []
    query = select(TrainPoint).where(TrainPoint.run == run.id, TrainPoint.round == round_)
    points = session.exec(query.order_by(col(TrainPoint.step))).all()
    every = -(-len(points) // POINTS)
    return [shapes.TrainPointShape(step=p.step, loss=p.loss) for p in points[::every]]
