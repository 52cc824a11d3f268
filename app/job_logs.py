"""A job's log: the events of its round beside the steps of its training, in pages that follow on."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from sqlmodel import Session, col, select

from app import job_shapes as shapes
from app.caller import Caller
from app.errors import InvalidField, InvalidLimit, InvalidLogCursor
from app.hand_results import is_simulated
from app.job_status import ACTIVE
from app.known_jobs import find_job
from app.paging import NO_CURSOR
from data.job_places import log_name
from data.tables import Event, Job, Round, Run, Step, TrainPoint

SOURCES = ("all", "system", "runtime")
MOST = 1000
CURSOR = re.compile("e([0-9]{1,18})t([0-9]{1,18})")
FOREVER = "9999"


@dataclass(kw_only=True, slots=True, frozen=True)
class Place:
    """How far a log was read: the last event and the last training step."""

    event: int = 0
    step: int = 0

    def __str__(self) -> str:
        return f"e{self.event}t{self.step}"


def job_logs(
    session: Session,
    caller: Caller,
    job: str,
    *,
    source: str,
    tail: int | None,
    limit: int,
    cursor: str | None,
) -> shapes.LogPage:
    """The last `tail` lines, or those after `cursor`; at most `limit` in a page."""
    row = find_job(session, caller, job)
    if source not in SOURCES:
        raise InvalidField(f"source: {source!r} is not one of {', '.join(SOURCES)}")
    if not 1 <= limit <= MOST or not 0 <= (tail or 0) <= MOST:
        raise InvalidLimit(f"limit, tail: give at most {MOST}")
    place = _place(cursor)
    lines = _lines(session, row, source, place)
    if cursor is None and tail is not None:
        place, lines = _skip(place, lines, len(lines) - tail)
    page, rest = lines[:limit], lines[limit:]
    for line in page:
        place = _after(place, line)
    return shapes.LogPage(
        items=page,
        next_cursor=str(place),
        has_more=bool(rest),
        eof=not rest and _is_over(session, row),
        collection_status="complete",
        sources=[shapes.LogSource(name=name) for name in SOURCES[1:] if source in ("all", name)],
        simulated=_is_simulated(session, row),
    )


def _is_simulated(session: Session, job: Job) -> bool:
    if job.run is None:
        return is_simulated(job)
    run = session.get(Run, job.run)
    return run is not None and run.simulated


def _place(cursor: str | None) -> Place:
    if cursor is None:
        return Place()
    match = CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidLogCursor(f"cursor: {NO_CURSOR}")
    return Place(event=int(match[1]), step=int(match[2]))


def _lines(session: Session, job: Job, source: str, place: Place) -> list[shapes.LogLine]:
    """Everything after a place, by time; each source keeps its own order, whatever its clock."""
    events = _events(session, job, place.event) if source != "runtime" else []
    steps = _steps(session, job, place.step) if source != "system" else []
    timed = [*_timed(events), *_timed(steps)]
    return [line for _, line in sorted(timed, key=lambda one: one[0])]


def _timed(lines: list[shapes.LogLine]) -> list[tuple[str, shapes.LogLine]]:
    """Lines with the latest time so far: an earlier one must not overtake, or a cursor skips it."""
    times = accumulate((line.at for line in lines), max)
    return list(zip(times, lines, strict=True))


def _events(session: Session, job: Job, after: int) -> list[shapes.LogLine]:
    """Events from the start of the job's round (of the run, for the first) to the next round's."""
    start, end = _span(session, job)
    query = select(Event).where(
        Event.run == _log_of(job), Event.seq > after, Event.at >= start, Event.at < end
    )
    return [
        shapes.LogLine(
            id=f"e{row.seq}",
            at=row.at,
            source="system",
            stream="stderr" if row.kind == "error" else "stdout",
            level="error" if row.kind == "error" else "info",
            content=row.text,
        )
        for row in session.exec(query.order_by(col(Event.seq)))
    ]


def _log_of(job: Job) -> str:
    """Under which name its lines are kept: its run's, or its own."""
    return job.run if job.run is not None else log_name(job.id)


def _span(session: Session, job: Job) -> tuple[str, str]:
    if job.run is None:
        return "", FOREVER
    numbers = (job.round or 1, (job.round or 1) + 1)
    query = select(Round).where(Round.run == job.run, col(Round.number).in_(numbers))
    started = {row.number: row.started_at for row in session.exec(query)}
    first = "" if numbers[0] == 1 else started.get(numbers[0], FOREVER)
    return first, started.get(numbers[1], FOREVER)


def _steps(session: Session, job: Job, after: int) -> list[shapes.LogLine]:
    query = select(Step.started_at).where(
        Step.run == _log_of(job), Step.round == (job.round or 0), Step.step == "train"
    )
    # Seconds count from the first attempt, so that a resumed training goes on after its pause.
    began = session.exec(query.order_by(col(Step.id))).first() or job.created_at
    points = select(TrainPoint).where(
        TrainPoint.run == _log_of(job),
        TrainPoint.round == (job.round or 0),
        TrainPoint.step > after,
    )
    return [
        shapes.LogLine(
            id=f"t{point.step}",
            at=_later(began, point.seconds),
            source="runtime",
            stream="stdout",
            level="info",
            content=f"step {point.step} loss {point.loss:.4f}",
        )
        for point in session.exec(points.order_by(col(TrainPoint.step)))
    ]


def _later(moment: str, seconds: float) -> str:
    later = datetime.fromisoformat(moment).astimezone(UTC) + timedelta(seconds=seconds)
    return later.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _skip(
    place: Place, lines: list[shapes.LogLine], count: int
) -> tuple[Place, list[shapes.LogLine]]:
    for line in lines[: max(0, count)]:
        place = _after(place, line)
    return place, lines[max(0, count) :]


def _after(place: Place, line: shapes.LogLine) -> Place:
    number = int(line.id[1:])
    if line.id.startswith("e"):
        return Place(event=max(place.event, number), step=place.step)
    return Place(event=place.event, step=max(place.step, number))


def _is_over(session: Session, job: Job) -> bool:
    """Whether nothing more will be written: the job has ended, and its run has moved on."""
    if job.status in ACTIVE:
        return False
    run = session.get(Run, job.run) if job.run else None
    return run is None or run.round != job.round or run.state not in ("starting", "running")
