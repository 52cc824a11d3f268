"""The driver of one run: from its row to its end, resuming wherever the journal says it was."""

import contextlib
import logging
import shutil
import time

from sqlmodel import Session, col, select

from data import crash, events, ledger
from data.disk import is_full
from data.inbox import Write
from data.lifecycle import ENDED, move
from data.store import Reader, StoreClosed
from data.tables import Control, Round, Run, now
from engine.disk import disk_full, write_surely
from engine.errors import CapReached, EngineError, Interrupted, NeedsMending
from engine.facts import RunFacts, read_facts
from engine.jobs import begin_job, close_job
from engine.rounds import prepare
from engine.rounds.round import run_round
from engine.run_end import rest, settle_leftovers
from engine.stage import Bench, ReadyWorker, Stage
from engine.types import Stop

log = logging.getLogger(__name__)

INTERRUPTED = "interrupted: the server stopped; the run goes on when it starts again"
ROUNDS_WITHOUT_GAIN = 3
CALM_SECONDS = 5.0  # between two tries to write on a full disk


class Driver:
    """Drives one run in the calling thread."""

    def __init__(self, bench: Bench, worker: ReadyWorker, run: str, shutdown: Stop) -> None:
        self._bench, self._worker, self._id, self._shutdown = bench, worker, run, shutdown

    def __call__(self) -> None:
        """Drive the run until it ends or the server stops; every end has a reason."""
        try:
            self._drive()
        except Exception as error:  # noqa: BLE001  told to people as the run's reason
            try:
                self._end(*self._ending(error))
            except StoreClosed:
                log.warning("run %s goes on when the server starts again", self._id)

    def _ending(self, error: Exception) -> tuple[str, str, str | None]:
        """State, reason and outcome of the round, for what ended the driver."""
        if isinstance(error, Interrupted):
            return "paused", INTERRUPTED, None
        if isinstance(error, NeedsMending):
            return "paused", str(error), None
        if is_full(error):
            return "paused", str(disk_full(self._bench.home.path)), None
        if isinstance(error, CapReached):
            return "stopped", str(error), "stopped"
        if isinstance(error, EngineError):
            return "failed", str(error), "failed"
        # A fault of ours: the run ends with it, the server lives on.
        log.error("run %s broke", self._id, exc_info=error)
        return "failed", f"{type(error).__name__}: {error}", "failed"

    def _drive(self) -> None:
        store = self._bench.store
        crash.point("before_take_up")
        facts = store.write(self._take_up)
        crash.point("after_take_up")
        stage = Stage(self._bench, facts, self._worker, self._shutdown)
        with contextlib.closing(stage):
            self._do_rounds(stage, facts)
        crash.point("after_run")

    def _do_rounds(self, stage: Stage, facts: RunFacts) -> None:
        store = self._bench.store
        prepared = stage.do(prepare, 0, {})
        while (number := store.write(lambda s: self._next_round(s, facts))) is not None:
            crash.point("after_round_begin")
            try:
                run_round(stage.do, number, prepared)
            except (Interrupted, CapReached, NeedsMending):
                raise
            except EngineError as error:
                self._fail_round(number, str(error))
            crash.point("after_round")
            # The adapter has its own folder by now; what training resumes from is spent.
            shutil.rmtree(facts.home.run_folder(facts.id) / f"train-{number}", ignore_errors=True)

    def _take_up(self, s: Session) -> RunFacts:
        """The run as running, with its account; raises when its settings do not fit any more."""
        run = s.get_one(Run, self._id)
        facts = read_facts(run, self._bench.library, self._bench.home)
        ledger.open_account(s, f"run:{run.id}", run.project_id, run.limits)
        ledger.open_account(s, f"project:{run.project_id}", run.project_id)
        word = "run started" if run.state == "starting" else "run goes on where it was"
        events.append(s, run.id, "message", word + _kind(run))
        if run.state != "running":
            move(s, run, "running", None)
        run.reason = None  # it may have waited for the device
        crash.point("in_take_up")
        return facts

    def _next_round(self, s: Session, facts: RunFacts) -> int | None:
        """The round to do now, begun if it is new; None when the run is at its end, or waits for
        the hours in which rounds may start: then the scheduler takes it up again."""
        run = s.get_one(Run, self._id)
        rounds = _rounds(s, run.id)
        if rounds and rounds[-1].outcome is None:
            return rounds[-1].number
        end = _end_of_run(s, run, rounds, facts)
        if end is not None:
            rest(s, run, *end)
            return None
        closed = "" if facts.dry else self._bench.machine.why_closed()
        if closed:
            _wait(s, run, closed)
            return None
        return _begin_round(s, run, len(rounds) + 1)

    def _fail_round(self, number: int, reason: str) -> None:
        """A round that fails is a row with its reason; the same failure twice ends the run."""

        def change(s: Session) -> bool:
            rounds = _rounds(s, self._id)
            _close_round(s, rounds[-1], "failed", reason)
            close_job(s, rounds[-1])
            events.append(s, self._id, "error", f"round {number} failed: {reason}")
            return len(rounds) > 1 and rounds[-2].reason == reason

        if self._bench.store.write(change):
            raise EngineError(f"the same failure twice: {reason}")

    def _end(self, state: str, reason: str, round_outcome: str | None) -> None:
        """Record the end. A disk too full for that is tried again, calmly, until the server stops."""

        def change(s: Session) -> None:
            run = s.get_one(Run, self._id)
            rounds = _rounds(s, run.id)
            if round_outcome and rounds and rounds[-1].outcome is None:
                _close_round(s, rounds[-1], round_outcome, reason)
            settle_leftovers(s, run.id)
            if run.state not in ENDED and (run.state, run.reason) != (state, reason):
                rest(s, run, state, reason)

        while not self._try(change):
            tried = time.monotonic()
            while time.monotonic() - tried < CALM_SECONDS:
                if self._shutdown():
                    return
                time.sleep(0.1)

    def _try(self, change: Write) -> bool:
        try:
            write_surely(self._bench.store, change)
        except Exception as error:
            if not is_full(error):
                raise
            log.warning("run %s: %s", self._id, disk_full(self._bench.home.path))
            return False
        return True


def has_open_round(store: Reader, run: str) -> bool:
    """Whether a run is in the middle of a round."""
    query = select(Round.id).where(Round.run == run, col(Round.outcome).is_(None))
    with store.read() as session:
        return session.exec(query).first() is not None


def _wait(s: Session, run: Run, reason: str) -> None:
    """Nothing of the run is done until the scheduler takes it up again."""
    run.reason, run.updated_at = reason, now()
    s.add(run)
    events.append(s, run.id, "message", reason)
    events.show(s, run.id, phase=None, role=None, tool=None, text=None, done=None, total=None)


def _kind(run: Run) -> str:
    """What everybody who reads the figures of a run must know about it, first of all."""
    said = ["dry run, nothing is trained"] if run.mode == "dry" else []
    said += ["simulated, not every model is a real one"] if run.simulated else []
    return f": {'; '.join(said)}" if said else ""


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
        word = "round" if len(rounds) == 1 else "rounds"
        return "finished", f"{len(rounds)} {word}, {promoted} promoted"
    recent = _since_asked(s, run.id, rounds)[-ROUNDS_WITHOUT_GAIN:]
    stuck = len(recent) == ROUNDS_WITHOUT_GAIN and all(r.decision != "promote" for r in recent)
    if stuck and not facts.dry:
        return "stopped", f"{ROUNDS_WITHOUT_GAIN} rounds without gain"
    return None


def _since_asked(s: Session, run: str, rounds: list[Round]) -> list[Round]:
    """The rounds that began after somebody last asked for more of them."""
    query = select(Control.after_round).where(
        Control.run == run, col(Control.action).in_(("resume", "extend")), Control.status == "done"
    )
    before = max((number for number in s.exec(query) if number), default=0)
    return [row for row in rounds if row.number > before]


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
    begin_job(s, run, number)
    events.append(s, run.id, "round", f"round {number} of {run.rounds_target} starts")
    crash.point("in_round_begin")
    return number


def _close_round(s: Session, row: Round, outcome: str, reason: str) -> None:
    row.outcome, row.reason, row.ended_at = outcome, reason, now()
    s.add(row)
