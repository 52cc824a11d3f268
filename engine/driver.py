"""The driver of one run: from its row to its end, resuming wherever the journal says it was."""

import logging
from functools import partial

from sqlmodel import Session, col, select

from data import crash, events, ledger
from data.lifecycle import ENDED, move
from data.tables import Control, Job, Round, Run, Steer, now
from engine.errors import CapReached, EngineError, Interrupted
from engine.facts import RunFacts, read_facts
from engine.rounds import prepare
from engine.rounds.round import run_round
from engine.stage import Bench, ReadyWorker, Stage
from engine.types import Stop

log = logging.getLogger(__name__)

INTERRUPTED = "interrupted: the server stopped; the run goes on when it starts again"
ROUNDS_WITHOUT_GAIN = 3
MICRO = ledger.MICRO


class Driver:
    """Drives one run in the calling thread."""

    def __init__(self, bench: Bench, worker: ReadyWorker, run: str, shutdown: Stop) -> None:
        self._bench, self._worker, self._id, self._shutdown = bench, worker, run, shutdown

    def __call__(self) -> None:
        """Drive the run until it ends or the server stops; every end has a reason."""
        try:
            self._drive()
        except Interrupted:
            self._end("paused", INTERRUPTED)
        except CapReached as error:
            self._end("stopped", str(error), round_outcome="stopped")
        except EngineError as error:
            self._end("failed", str(error), round_outcome="failed")
        except Exception as error:  # a fault of ours: the run ends with it, the server lives on
            log.exception("run %s broke", self._id)
            self._end("failed", f"{type(error).__name__}: {error}", round_outcome="failed")

    def _drive(self) -> None:
        store = self._bench.store
        facts: RunFacts = store.write(lambda s: self._take_up(s))
        crash.point("after_move")
        stage = Stage(self._bench, facts, self._worker, self._shutdown)
        prepared = stage.do(prepare, 0, {})
        while (number := store.write(lambda s: self._next_round(s, facts))) is not None:
            try:
                run_round(stage.do, number, prepared)
            except (Interrupted, CapReached):
                raise
            except EngineError as error:
                self._fail_round(number, str(error))
            store.write(partial(_close_job, facts=facts, number=number))

    def _take_up(self, s: Session) -> RunFacts:
        """The run as running, with its account; raises when its settings do not fit any more."""
        run = s.get_one(Run, self._id)
        facts = read_facts(run, self._bench.library, self._bench.home)
        _open_accounts(s, run)
        if run.state != "running":
            move(s, run, "running", None)
            events.append(s, run.id, "message", "run started" if not run.round else "run resumed")
        return facts

    def _next_round(self, s: Session, facts: RunFacts) -> int | None:
        """The round to do now, begun if it is new; None when the run is at its end."""
        run = s.get_one(Run, self._id)
        rounds = _rounds(s, run.id)
        if rounds and rounds[-1].outcome is None:
            return rounds[-1].number
        end = _end_of_run(s, run, rounds, facts)
        if end is not None:
            _finish(s, run, *end)
            return None
        return _begin_round(s, run, len(rounds) + 1)

    def _fail_round(self, number: int, reason: str) -> None:
        """A round that fails is a row with its reason; the same failure twice ends the run."""

        def change(s: Session) -> bool:
            rounds = _rounds(s, self._id)
            _close_round(s, rounds[-1], "failed", reason)
            events.append(s, self._id, "error", f"round {number} failed: {reason}")
            return len(rounds) > 1 and rounds[-2].reason == reason

        if self._bench.store.write(change):
            raise EngineError(f"the same failure twice: {reason}")

    def _end(self, state: str, reason: str, round_outcome: str | None = None) -> None:
        def change(s: Session) -> None:
            run = s.get_one(Run, self._id)
            rounds = _rounds(s, run.id)
            if round_outcome and rounds and rounds[-1].outcome is None:
                _close_round(s, rounds[-1], round_outcome, reason)
            if run.state not in ENDED:
                _finish(s, run, state, reason)

        self._bench.store.write(change)


def _open_accounts(s: Session, run: Run) -> None:
    limits = run.limits
    ledger.open_account(
        s,
        f"run:{run.id}",
        run.project_id,
        model_cap=_micro(limits.get("max_model_cost_usd")),
        total_cap=_micro(limits.get("max_cost_usd")),
        requests_cap=limits.get("max_model_requests"),
    )
    ledger.open_account(s, f"project:{run.project_id}", run.project_id)


def _micro(usd: float | None) -> int | None:
    return None if usd is None else round(usd * MICRO)


def _rounds(s: Session, run: str) -> list[Round]:
    return list(s.exec(select(Round).where(Round.run == run).order_by(col(Round.number))))


def _end_of_run(
    s: Session, run: Run, rounds: list[Round], facts: RunFacts
) -> tuple[str, str | None] | None:
    """State and reason when nothing more is to be done, else None."""
    if _stop_requested(s, run.id):
        return "stopped", f"stopped by {_stop_requested(s, run.id)} after round {len(rounds)}"
    if len(rounds) >= run.rounds_target:
        promoted = sum(1 for row in rounds if row.decision == "promote")
        return "finished", f"{len(rounds)} rounds, {promoted} promoted"
    recent = rounds[-ROUNDS_WITHOUT_GAIN:]
    stuck = len(recent) == ROUNDS_WITHOUT_GAIN and all(r.decision != "promote" for r in recent)
    if stuck and not facts.dry:
        return "stopped", f"{ROUNDS_WITHOUT_GAIN} rounds without gain"
    return None


def _stop_requested(s: Session, run: str) -> str | None:
    """Who asked for a stop that is not carried out yet."""
    query = select(Control).where(
        Control.run == run, Control.action == "stop", Control.status == "requested"
    )
    found = s.exec(query).first()
    return None if found is None else found.author


def _begin_round(s: Session, run: Run, number: int) -> int:
    run.round, run.updated_at = number, now()
    s.add(run)
    s.add(
        Round(
            project_id=run.project_id,
            run=run.id,
            number=number,
            start_version=run.best_version or "base",
        )
    )
    job = _job(s, run, number)
    job.status, job.updated_at = "running", now()
    s.add(job)
    events.append(s, run.id, "round", f"round {number} of {run.rounds_target} starts")
    return number


def _job(s: Session, run: Run, number: int) -> Job:
    """The bookkeeping job of a round; round 1's was made by the door that started the run."""
    found = s.exec(select(Job).where(Job.run == run.id, Job.round == number)).first()
    if found is not None:
        return found
    first = s.exec(select(Job).where(Job.run == run.id, Job.round == 1)).one()
    labels = first.labels | {"rsi_round": str(number)}
    job = Job(
        id=f"{run.id}-r{number}",
        project_id=run.project_id,
        run=run.id,
        round=number,
        type="train",
        labels=labels,
        bookkeeping=True,
    )
    s.add(job)
    return job


def _close_job(s: Session, facts: RunFacts, number: int) -> None:
    """End a round's job; the next round's is made first, so that a run never looks ended between."""
    run = s.get_one(Run, facts.id)
    row = next(r for r in _rounds(s, facts.id) if r.number == number)
    if number < run.rounds_target and run.state == "running":
        s.add(_job(s, run, number + 1))
    job = _job(s, run, number)
    job.status = "failed" if row.outcome == "failed" else "completed"
    job.reason, job.updated_at, job.finished_at = row.reason, now(), now()
    s.add(job)


def _close_round(s: Session, row: Round, outcome: str, reason: str) -> None:
    row.outcome, row.reason, row.ended_at = outcome, reason, now()
    s.add(row)


def _finish(s: Session, run: Run, state: str, reason: str | None) -> None:
    """The run's last move with its last event, and what can no longer be delivered is dropped."""
    if state in ENDED:
        _settle_requests(s, run.id)
        unfinished = col(Job.status).in_(("queued", "running"))
        for job in s.exec(select(Job).where(Job.run == run.id, unfinished)):
            job.status = "failed" if state == "failed" else "cancelled"
            job.updated_at = job.finished_at = now()
            s.add(job)
    word = f"run {state}" + (f": {reason}" if reason else "")
    events.append(s, run.id, "error" if state == "failed" else "message", word)
    events.show(s, run.id, phase=None, role=None, tool=None, text=None, done=None, total=None)
    move(s, run, state, reason)


def _settle_requests(s: Session, run: str) -> None:
    """Open steers are dropped and open controls are done before the end state is set."""
    for steer in s.exec(select(Steer).where(Steer.run == run, Steer.status == "queued")):
        steer.status, steer.reason = "dropped", "the run ended before its next turn"
        s.add(steer)
        events.append(s, run, "steer", f"{steer.id} dropped: {steer.reason}")
    for control in s.exec(select(Control).where(Control.run == run, Control.status == "requested")):
        control.status, control.done_at = "done", now()
        s.add(control)
