"""The states of a job on the wire, lower case only, and which one people see."""

from data.tables import Job

ACTIVE = ("queued", "pending", "starting", "running", "recovering", "cancelling")
STATUSES = (*ACTIVE, "completed", "failed", "cancelled")


def status_of(job: Job, stopping: bool) -> str:
    """The state to show; `stopping` says that the job's run was asked to stop."""
    return "cancelling" if stopping and job.status in ACTIVE else job.status
