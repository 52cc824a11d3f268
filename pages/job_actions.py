"""What people do with a job: end it, after being told what that means."""

from app.caller import Caller
from app.job_shapes import JobItem
from pages.acting import Acting
from pages.jobs_table import label
from pages.parts import box, text
from pages.request import request
from pages.settings_parts import buttons, dialog


def stop_job(acting: Acting, job: JobItem) -> None:
    """Ask for the job's end; says what ends with it and what stays."""
    with dialog(f"Stop {job.job_id}?") as (opened, note):
        with box("pw-points", "ul"):
            for line in stop_lines(job):
                text(line, tag="li")

        def call(caller: Caller) -> None:
            acting.service.stop_job(caller, job.job_id)

        buttons(opened, "Stop", request(acting, opened, note, call), negative=True)


def stop_lines(job: JobItem) -> list[str]:
    """What a stop does to this job."""
    run = label(job, "run")
    if run is not None:
        begun = f"It belongs to the run {run}, which is asked to stop, and does so after its round."
        return [begun, "Finished rounds, versions and evidence stay; the run can be resumed later."]
    if job.type == "inference":
        begun = "The version is no longer deployed: calls to its address are refused."
        return [begun, "Its checkpoint stays, and can be deployed again."]
    return ["The work ends soon. What it has not recorded by then is lost."]
