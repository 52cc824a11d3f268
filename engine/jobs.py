"""Bookkeeping jobs: one for every round, so that job lists show a run from its first moment."""

from sqlmodel import Session, col, select

from data.tables import Job, Round, Run, now

UNFINISHED = ("queued", "running")


def begin_job(s: Session, run: Run, number: int) -> None:
    """A round's job is running from now on; of an end that it had, nothing is left."""
    job = _job_of(s, run, number)
    job.status, job.updated_at = "running", now()
    job.reason, job.finished_at = None, None
    s.add(job)


def close_job(s: Session, row: Round) -> None:
    """End a round's job; the next round's is made first, so that a run never looks ended between."""
    run = s.get_one(Run, row.run)
    if row.number < run.rounds_target and run.state == "running":
        _job_of(s, run, row.number + 1)
    job = _job_of(s, run, row.number)
    job.status = "failed" if row.outcome == "failed" else "completed"
    job.reason, job.updated_at, job.finished_at = row.reason, now(), now()
    s.add(job)


def end_jobs(s: Session, run: Run, state: str) -> None:
    """End what is unfinished when its run ends."""
    query = select(Job).where(Job.run == run.id, col(Job.status).in_(UNFINISHED))
    for job in s.exec(query):
        job.status = "failed" if state == "failed" else "cancelled"
        job.updated_at = job.finished_at = now()
        s.add(job)


def _job_of(s: Session, run: Run, number: int) -> Job:
    """The job of a round, made when it is not there; round 1's came with the run."""
    found = s.exec(select(Job).where(Job.run == run.id, Job.round == number)).first()
    if found is not None:
        return found
    first = s.exec(select(Job).where(Job.run == run.id, Job.round == 1)).one()
    job = Job(
        id=f"{run.id}-r{number}",
        project_id=run.project_id,
        run=run.id,
        round=number,
        type="train",
        labels=first.labels | {"rsi_round": str(number)},
        bookkeeping=True,
    )
    s.add(job)
    s.flush()
    return job
