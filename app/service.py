"""Everything that can be done, one method each; doors and pages call these and nothing else."""

from pydantic import ValidationError
from sqlmodel import Session, col, select

from app import evidence, live, runs, shapes
from app.caller import READ, Caller
from app.errors import InvalidRequest
from app.start import StartFields, check_start, insert_run
from app.steps import steps
from data.store import Reader
from data.tables import Lease, Run

WAITS = "waits for the device"  # how the engine begins the reason of a run that must wait


class Service:
    """Reads and commands over one store. `device` is the machine's name for people."""

    def __init__(self, store: Reader, device: str) -> None:
        self._store, self._device = store, device

    def start_run(self, caller: Caller, **fields: object) -> shapes.RunSummary:
        """Record a new run; the engine takes it up within a second."""
        caller.need("training.run")
        try:
            checked = check_start(StartFields.model_validate(fields))
        except ValidationError as error:
            raise InvalidRequest(_first_fault(error)) from None

        def change(session: Session) -> shapes.RunSummary:
            run = insert_run(session, caller, checked)
            return runs.summaries(session, [run])[0]

        summary: shapes.RunSummary = self._store.write(change)
        return summary

    def list_runs(
        self,
        caller: Caller,
        *,
        limit: int = 25,
        cursor: str | None = None,
        state: str | None = None,
        q: str | None = None,
    ) -> shapes.RunPage:
        """A page of the runs that the caller sees, newest first."""
        caller.need(READ)
        if not 1 <= limit <= 100:
            raise InvalidRequest("limit: give 1 to 100")
        with self._store.read() as session:
            return runs.list_runs(session, caller, limit=limit, cursor=cursor, state=state, q=q)

    def run_detail(self, caller: Caller, run: str) -> shapes.RunDetail:
        """One run with its versions, rounds, audits and last gate."""
        caller.need(READ)
        with self._store.read() as session:
            row = runs.find_run(session, caller, run)
            return detail(session, row, self._device)

    def run_live(
        self, caller: Caller, run: str, since: int = 0, limit: int = 200, newest: bool = False
    ) -> shapes.Live:
        """What a run does now, with the events after `since`, or the newest of them."""
        caller.need(READ)
        if since < 0:
            raise InvalidRequest("since: give 0 or the last event's number")
        with self._store.read() as session:
            return live.run_live(session, runs.find_run(session, caller, run), since, limit, newest)

    def run_round(self, caller: Caller, run: str, number: int) -> shapes.RoundShape:
        """One round of a run."""
        caller.need(READ)
        if number < 1:
            raise InvalidRequest("round: rounds are counted from 1")
        with self._store.read() as session:
            return evidence.run_round(session, runs.find_run(session, caller, run), number)

    def device(self, caller: Caller) -> shapes.Device:
        """The machine, who holds it and who waits."""
        caller.need(READ)
        with self._store.read() as session:
            held = session.exec(select(Lease).where(Lease.state == "held")).first()
            waits = col(Run.reason).startswith(WAITS)
            query = select(Run.id).where(waits, col(Run.state).in_(("starting", "running")))
            waiting = list(session.exec(query.order_by(col(Run.created_at))))
        return shapes.Device(
            name=self._device,
            purpose=held.purpose if held else None,
            run=held.run if held else None,
            waiting=waiting,
        )


def detail(session: Session, row: Run, device: str) -> shapes.RunDetail:
    """A run's whole evidence in one shape."""
    summary = runs.summaries(session, [row])[0]
    rounds = [evidence.run_round(session, row, number) for number in range(1, row.round + 1)]
    gates = [one.gate for one in rounds if one.gate is not None]
    return shapes.RunDetail(
        **summary.model_dump(),
        summary=summary.activity or row.reason or row.state,
        machine=device,
        brief=row.brief,
        limits=row.limits,
        seed=row.seed,
        steps=steps(session, row),
        versions=evidence.versions(session, row.id),
        gate=gates[-1] if gates else None,
        audits=evidence.audits(session, row.id),
        rounds=rounds,
        directives=evidence.directives(session, row.id),
        config=row.config,
    )


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}"
