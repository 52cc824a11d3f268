"""Jobs over REST: what was trained, how it went, its log and checkpoints."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request

from app import job_logs, job_shapes
from app.deploy_schema import DEPLOYMENT, EXAMPLE
from app.rest.answers import refusals
from app.rest.asking import Counted, Cursor, Deployer, Limit, Reader, Runner, Served, Stopper
from app.rest.bodies import LargeBody, described
from app.rest.paths import Name
from app.train_schema import train_body

router = APIRouter(prefix="/job", tags=["Jobs"])

JobId = Annotated[Name, Path(description="the job's id", examples=["sums-1-r1"])]
Type = Literal["agent", "sandbox", "train", "inference"]
Status = Literal[
    "queued",
    "pending",
    "starting",
    "running",
    "recovering",
    "cancelling",
    "completed",
    "failed",
    "cancelled",
]


@router.get("", responses=refusals())
def list_jobs(
    request: Request,
    service: Served,
    caller: Reader,
    type: Annotated[Type | None, Query(description="all kinds without one")] = None,
    status: Annotated[Status | None, Query(description="all states without one")] = None,
    limit: Limit = 25,
    cursor: Cursor = None,
) -> job_shapes.JobPage:
    """The project's jobs, newest first. Labels of a loop's job name its run and round."""
    page = service.list_jobs(caller, type=type, status=status, limit=limit, cursor=cursor)
    for item in page.items:
        with_address(request, item)
    return page


@router.post(
    "",
    status_code=201,
    responses=refusals(404, 409, 413),
    openapi_extra=described({"oneOf": [DEPLOYMENT, train_body()]}, EXAMPLE),
)
def submit(service: Served, caller: Runner, body: LargeBody) -> job_shapes.JobStarted:
    """Submit work without a loop: `inference` deploys a version, `train` trains on given rows.

    The same `request_id` with the same body gives the same job.
    """
    return service.submit_job(caller, body)


# Fixed names come before {job}, which would swallow them.


@router.get("/training-models", responses=refusals())
def training_models(service: Served, caller: Reader) -> job_shapes.TrainingModelPage:
    """The base models that can be trained here."""
    return service.training_models(caller)


@router.get("/checkpoints", responses=refusals())
def checkpoints(
    service: Served,
    caller: Reader,
    train_job_id: Annotated[str | None, Query(description="of this job alone")] = None,
    job_id: Annotated[str | None, Query(description="the same under another name")] = None,
    run_id: Annotated[str | None, Query(description="of this run alone")] = None,
    limit: Limit = 25,
    cursor: Counted = None,
) -> job_shapes.CheckpointPage:
    """What was trained and is whole on disk, newest first."""
    job = train_job_id if train_job_id is not None else job_id
    return service.checkpoints(caller, job=job, run=run_id, limit=limit, cursor=cursor)


@router.get("/checkpoints/download", responses=refusals(404))
def download(
    request: Request,
    service: Served,
    caller: Reader,
    path: Annotated[
        str, Query(description="id, RUN/candidate-1, envloop://JOB/ID, tinker_path, or its name")
    ],
    job_id: Annotated[str | None, Query(description="the job that trained it")] = None,
    run_id: Annotated[str | None, Query(description="the run that trained it")] = None,
) -> job_shapes.CheckpointDownload:
    """Links to its files, which need no key and are good for a quarter of an hour."""
    base = f"{request.url.scheme}://{request.url.netloc}{request.state.base}"
    return service.checkpoint_links(caller, base, path, job_id, run_id)


@router.delete("/checkpoints/{checkpoint}", responses=refusals(404, 409))
def delete_checkpoint(
    service: Served,
    caller: Deployer,
    checkpoint: Annotated[Name, Path(description="a checkpoint's id")],
    dry_run: Annotated[bool, Query(description="only tell what that would free")] = False,
) -> job_shapes.Deletion:
    """Delete its weights for good; its evaluations and evidence stay."""
    return service.delete_checkpoint(caller, checkpoint, dry_run)


@router.get("/{job}", responses=refusals(404))
def job(request: Request, service: Served, caller: Reader, job: JobId) -> job_shapes.JobItem:
    """One job."""
    return with_address(request, service.job(caller, job))


@router.get("/{job}/result", responses=refusals(404))
def result(service: Served, caller: Reader, job: JobId) -> job_shapes.JobResult:
    """A job's outcome in figures."""
    return service.job_result(caller, job)


@router.get("/{job}/events", responses=refusals(404))
def events(service: Served, caller: Reader, job: JobId) -> job_shapes.JobEventPage:
    """When the job entered which state."""
    return service.job_events(caller, job)


@router.get("/{job}/logs", responses=refusals(404))
def logs(
    service: Served,
    caller: Reader,
    job: JobId,
    source: Annotated[
        Literal["all", "system", "runtime"],
        Query(description="`system`: the engine's events, `runtime`: training steps"),
    ] = "all",
    tail: Annotated[
        int, Query(ge=0, le=job_logs.MOST, description="how many last lines to begin with")
    ] = 200,
    limit: Annotated[int, Query(ge=1, le=job_logs.MOST, description="lines in a page")] = 200,
    cursor: Annotated[
        str | None,
        Query(
            description="go on after it: a next_cursor; then tail is ignored",
            json_schema_extra={"pattern": f"^{job_logs.CURSOR.pattern}$"},
        ),
    ] = None,
) -> job_shapes.LogPage:
    """Part of a log; following it ends where `eof` is true and `has_more` false."""
    return service.job_logs(caller, job, source=source, tail=tail, limit=limit, cursor=cursor)


@router.post("/{job}/stop", responses=refusals(404, 409))
def stop(service: Served, caller: Stopper, job: JobId) -> job_shapes.JobStopped:
    """Ask for the job's end. A loop's job ends with its run, which stops after its round."""
    return service.stop_job(caller, job)


@router.post("/{job}/pause", responses=refusals(404, 409))
def pause(request: Request, service: Served, caller: Deployer, job: JobId) -> job_shapes.JobItem:
    """Pause a deployed model; other jobs know no such action."""
    return with_address(request, service.change_endpoint(caller, job, "pause"))


@router.post("/{job}/resume", responses=refusals(404, 409))
def resume(request: Request, service: Served, caller: Deployer, job: JobId) -> job_shapes.JobItem:
    """Resume a deployed model; other jobs know no such action."""
    return with_address(request, service.change_endpoint(caller, job, "resume"))


@router.post("/{job}/wake", responses=refusals(404, 409))
def wake(request: Request, service: Served, caller: Deployer, job: JobId) -> job_shapes.JobItem:
    """Wake a deployed model; other jobs know no such action."""
    return with_address(request, service.change_endpoint(caller, job, "wake"))


def with_address(request: Request, item: job_shapes.JobItem) -> job_shapes.JobItem:
    """A deployed version's address as whoever asks reaches this server."""
    if item.inference is not None:
        origin = f"{request.url.scheme}://{request.url.netloc}{request.state.base}"
        item.inference.base_url = origin + item.inference.base_url
    return item
