"""One run for people: where it stands in a line, or its whole evidence."""

from sqlmodel import Session

from app import evidence, receipts, runs, shapes
from app.caller import Caller
from app.caps import limits_shape
from app.pending import shown
from app.steps import steps
from data.tables import Run


def detail(session: Session, caller: Caller, run: str, machine: str) -> shapes.RunDetail:
    """A run's whole evidence in one shape."""
    row = runs.find_run(session, caller, run)
    rounds = evidence.rounds(session, row, range(1, row.round + 1))
    gates = [one.gate for one in rounds if one.gate is not None]
    return shapes.RunDetail(
        **_compact(session, row, machine).model_dump(),
        brief=row.brief,
        limits=limits_shape(shown(session, [row])[row.id].limits),
        seed=row.seed,
        steps=steps(session, row),
        versions=evidence.versions(session, row.id),
        gate=gates[-1] if gates else None,
        audits=evidence.audits(session, row.id),
        rounds=rounds,
        directives=receipts.directives(session, row.id),
        config=row.config,
    )


def compact(session: Session, caller: Caller, run: str, machine: str) -> shapes.RunCompact:
    """A run without its evidence."""
    return _compact(session, runs.find_run(session, caller, run), machine)


def _compact(session: Session, row: Run, machine: str) -> shapes.RunCompact:
    summary = runs.summaries(session, [row])[0]
    line = summary.activity or summary.reason or summary.state
    return shapes.RunCompact(**summary.model_dump(), summary=line, machine=machine)
