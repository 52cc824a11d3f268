"""The six steps of the classic example, as far as a run's current round has come."""

from sqlmodel import Session, col, select

from app import shapes
from data.tables import Live, Run, Step

STEPS: dict[str, tuple[str, ...]] = {
    "baseline": ("prepare",),
    "find failures": ("diagnose",),
    "build data": ("plan", "collect", "admit", "data_audit"),
    "train": ("train",),
    "re-evaluate": ("develop", "blind"),
    "decide": ("audit", "gate"),
}


def steps(session: Session, run: Run) -> list[shapes.StepState]:
    """Done, now or still to do, each with the figure that its last phase recorded."""
    query = select(Step).where(Step.run == run.id, col(Step.round).in_((0, run.round)))
    rows = [row for row in session.exec(query.order_by(col(Step.id))) if _current(row, run)]
    done = {row.step: row for row in rows if row.status == "done"}
    failed = rows[-1].step if rows and rows[-1].status == "failed" else None
    live = session.get(Live, run.id)
    now = live.phase if live and run.state == "running" else None
    return [_step(name, phases, done, now, failed) for name, phases in STEPS.items()]


def _current(row: Step, run: Run) -> bool:
    return row.round == run.round or row.step == "prepare"


def _step(
    name: str,
    phases: tuple[str, ...],
    done: dict[str, Step],
    now: str | None,
    failed: str | None,
) -> shapes.StepState:
    finished = [done[phase] for phase in phases if phase in done]
    over = phases[-1] in done or ("gate" in done and bool(finished))  # the gate may come early
    state = "now" if now in phases else "done" if over else "todo"
    state = "failed" if failed in phases else state
    texts = [str(row.result.get("text")) for row in finished if row.result.get("text")]
    last = finished[-1] if finished else None
    return shapes.StepState(
        name=name,
        state=state,
        text=_figure(name, texts),
        at=last.ended_at if last else None,
    )


def _figure(name: str, texts: list[str]) -> str | None:
    """The figure that says most: rows for the data, the last one otherwise."""
    if not texts:
        return None
    if name == "build data":
        rows = [text for text in texts if "rows" in text]
        return rows[-1] if rows else texts[-1]
    return texts[-1]
