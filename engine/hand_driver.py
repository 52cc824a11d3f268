"""The driver of one training without a loop: from its row to its end, resuming where it was."""

import contextlib
import hashlib
import logging
import secrets
import shutil

from sqlmodel import Session, select

from data import events, ledger
from data.disk import is_full
from data.home import write_secret
from data.job_places import job_folder, log_name
from data.store import StoreClosed
from data.tables import Checkpoint, Job, JobControl, Step, now
from engine import hand_evaluate, hand_train
from engine.disk import disk_full, write_surely
from engine.driver import INTERRUPTED
from engine.errors import CapReached, EngineError, Interrupted, NeedsMending
from engine.facts import JobFacts
from engine.models import simulated
from engine.stage import Bench, ReadyWorker, Stage
from engine.types import Stop

log = logging.getLogger(__name__)

ALIVE = ("queued", "starting", "running")
SECRET = "secret"  # the file, beside the rows, that decides a job's tasks


class HandDriver:
    """Drives one job in the calling thread; `stop` says that people asked for its end."""

    def __init__(
        self, bench: Bench, worker: ReadyWorker, job: str, stop: Stop, shutdown: Stop
    ) -> None:
        self._bench, self._worker, self._id = bench, worker, job
        self._stop, self._shutdown = stop, shutdown

    def __call__(self) -> None:
        """Train, evaluate when asked, and end the job with a reason, or leave it to be tried again."""
        try:
            if not self._bench.store.write(self._begin):
                return
            status, reason = self._outcome()
            write_surely(self._bench.store, lambda s: self._end(s, status, reason))
        except StoreClosed:
            log.warning("job %s goes on when the server starts again", self._id)
            return
        except Exception as error:
            if not is_full(error):
                raise
            log.warning("job %s: %s", self._id, disk_full(self._bench.home.path))
            return
        if status not in ALIVE:
            shutil.rmtree(job_folder(self._bench.home, self._id) / hand_train.STATE, True)

    def _outcome(self) -> tuple[str, str]:
        """Status and reason of the job's end; `running` when the next server goes on with it,
        `queued` when something must be mended first."""
        try:
            return "completed", self._do_phases()
        except StoreClosed:
            raise
        except Interrupted:
            return ("cancelled", "") if self._stop() else ("running", INTERRUPTED)
        except NeedsMending as error:
            return "queued", _goes_on(error)
        except CapReached as error:
            return "queued", f"{error}; once it is raised, the training goes on by itself"
        except EngineError as error:
            return "failed", str(error)
        except Exception as error:
            if is_full(error):
                return "queued", _goes_on(disk_full(self._bench.home.path))
            # A fault of ours: the job ends with it, the server lives on.
            log.error("job %s broke", self._id, exc_info=error)
            return "failed", f"{type(error).__name__}: {error}"

    def _do_phases(self) -> str:
        """The job's figures in a line."""
        store = self._bench.store
        facts = store.write(self._facts)
        stage = Stage(self._bench, facts, self._worker, self._is_over)
        with contextlib.closing(stage):
            trained = stage.do(hand_train, 0, {})
            if facts.spec["evaluate"] is None:
                return str(trained["text"])
            measured = stage.do(hand_evaluate, 0, {"train": trained})
        return f"{trained['text']}; {measured['text']}"

    def _is_over(self) -> bool:
        return self._stop() or self._shutdown()

    def _begin(self, s: Session) -> bool:
        """The job as running, with the account that its time is charged to; False when it ended."""
        job = s.get_one(Job, self._id)
        if job.status not in ALIVE:
            return False
        ledger.open_account(s, f"project:{job.project_id}", job.project_id)
        steps = select(Step.id).where(Step.run == log_name(job.id))
        word = "begins" if s.exec(steps).first() is None else "goes on where it was"
        what = f"{job.spec.get('rows')} rows on {job.spec.get('base_model')}"
        events.append(s, log_name(job.id), "message", f"training {word}: {what}")
        job.status, job.reason, job.updated_at = "running", None, now()
        s.add(job)
        return True

    def _facts(self, s: Session) -> JobFacts:
        return _read_facts(self._bench, s.get_one(Job, self._id))

    def _end(self, s: Session, status: str, reason: str) -> None:
        job = s.get_one(Job, self._id)
        if status == "cancelled":
            reason = _who_stopped(s, job)
        made = s.get(Checkpoint, job.result.get("checkpoint") or "")
        if status == "failed" and made is not None and made.deleted_at is None:
            reason += f"; the checkpoint {made.id} is kept"
        end_job(s, job, status, reason)
        if status not in ALIVE:
            settle_stops(s, job)


def end_job(s: Session, job: Job, status: str, reason: str) -> None:
    """Give a job its status and reason, with a last line in its log."""
    job.status, job.reason, job.updated_at = status, events.one_line(reason), now()
    if status not in ALIVE:
        job.finished_at = job.updated_at
    kind = "error" if status == "failed" else "message"
    told = f"job {status}" if status == "completed" else f"job {status}: {reason}"
    events.append(s, log_name(job.id), kind, told)
    s.add(job)


def settle_stops(s: Session, job: Job) -> None:
    """Requests for the end of a job that has ended: done where that is why it did."""
    query = select(JobControl).where(JobControl.job == job.id, JobControl.status == "requested")
    for control in s.exec(query):
        control.status = "done" if job.status == "cancelled" else "refused"
        control.done_at = now()
        s.add(control)


def _goes_on(error: NeedsMending) -> str:
    """What is to be mended; a run would be resumed then, a job is tried again."""
    return f"{str(error).removesuffix(', then resume')}; the training then goes on by itself"


def _who_stopped(s: Session, job: Job) -> str:
    query = select(JobControl.author).where(
        JobControl.job == job.id, JobControl.action == "stop", JobControl.status == "requested"
    )
    return f"stopped by {s.exec(query).first() or 'nobody known'}"


def _read_facts(bench: Bench, job: Job) -> JobFacts:
    return JobFacts(
        id=job.id,
        project_id=job.project_id,
        secret=_secret(bench, job),
        simulated=job.spec["base_model"] in simulated.MODELS,
        base_model=job.spec["base_model"],
        spec=job.spec,
        home=bench.home,
    )


def _secret(bench: Bench, job: Job) -> bytes:
    """Of its own, so that nobody could train on its tasks; a seeded job can be repeated."""
    if job.spec["seed"] is not None:
        return hashlib.sha256(f"job|{job.spec['seed']}".encode()).digest()
    file = job_folder(bench.home, job.id) / SECRET
    write_secret(file, secrets.token_hex(32))
    return bytes.fromhex(file.read_text())
