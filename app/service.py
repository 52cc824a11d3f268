"""Everything that can be done, one method each; doors and pages call these and nothing else."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from app import (
    billing,
    catalog,
    checkpoint_removal,
    checkpoints,
    control,
    cost_shapes,
    costs,
    downloads,
    endpoints,
    evidence,
    identity,
    job_logs,
    job_shapes,
    jobs,
    live,
    machine,
    project_shapes,
    receipts,
    runs,
    shapes,
    start,
    steering,
    submit,
)
from app.caller import READ, Caller
from app.details import compact, detail
from app.errors import EndpointNotReady, InvalidRequest
from app.ports import Chunks, Lent
from app.start_fields import check_start
from app.start_options import fields_like, start_options
from app.trainable import base_models, training_models
from data import crash
from data.home import Home
from data.store import Reader

Found = TypeVar("Found")


class Service:
    """Reads and commands over one store. `device` is the machine's name for people.

    `why_no_sandbox` says why code cannot be run here, or None where it can.
    Every method takes the caller first, checks the capability, then whether the caller can see the
    thing, then the fields, then the state; errors.py has the refusals.
    """

    def __init__(
        self,
        store: Reader,
        device: str,
        why_no_sandbox: Callable[[], str | None] = lambda: "this process has no sandboxes",
    ) -> None:
        self._store, self._device = store, device
        self._why_no_sandbox = why_no_sandbox
        self._home = Home(path=store.path.parent)
        self._links = downloads.Links()
        self._completions: Lent | None = None
        self._machine: machine.Machine | None = None
        self._recipe_faults: start.RecipeFaults = start.no_faults

    def look_at_recipes(self, faults: start.RecipeFaults) -> None:
        """What finds fault with a recipe before it trains."""
        self._recipe_faults = faults

    def watch(self, machine: machine.Machine) -> None:
        """The machine that runs are worked on."""
        self._machine = machine

    def lend(self, completions: Lent) -> None:
        """What the engine lends to those who wait for an answer."""
        self._completions = completions

    # Model loops

    def start_run(self, caller: Caller, /, **fields: object) -> shapes.RunStarted:
        """Record a new run; the engine takes it up within a second."""
        caller.need("training.run")
        checked = check_start(fields, base_models(self._home))
        start.check_sandbox(checked, self._why_no_sandbox)
        start.check_recipe(checked, self._recipe_faults)
        machine.check_memory(checked, self._machine)
        started = self._store.write(lambda s: start.receipt(start.insert_run(s, caller, checked)))
        crash.point("after_door_run")
        return started

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
        return self._read(caller, runs.list_runs, limit=limit, cursor=cursor, state=state, q=q)

    def see_run(self, caller: Caller, run: str) -> None:
        """RunNotFound unless the caller can see the run."""
        self._read(caller, runs.find_run, run)

    def run_detail(self, caller: Caller, run: str) -> shapes.RunDetail:
        """One run with its versions, rounds, audits and last gate."""
        return self._read(caller, detail, run, self._device)

    def run_summary(self, caller: Caller, run: str) -> shapes.RunCompact:
        """One run without its evidence: cheap to poll."""
        return self._read(caller, compact, run, self._device)

    def run_live(
        self, caller: Caller, run: str, since: int = 0, limit: int = 200, newest: bool = False
    ) -> shapes.Live:
        """What a run does now, with the events after `since`, or the newest of them."""
        caller.need(READ)
        with self._store.read() as session:
            row = runs.find_run(session, caller, run)
            if since < 0:
                raise InvalidRequest("since: give 0 or the last event's number")
            return live.run_live(session, row, since, limit, newest)

    def list_rounds(
        self, caller: Caller, run: str, limit: int = 25, cursor: str | None = None
    ) -> shapes.RoundPage:
        """A page of the rounds of a run, first to last."""
        caller.need(READ)
        with self._store.read() as session:
            row = runs.find_run(session, caller, run)
            return evidence.list_rounds(session, row, limit, cursor)

    def run_round(self, caller: Caller, run: str, number: int) -> shapes.RoundShape:
        """One round of a run."""
        caller.need(READ)
        with self._store.read() as session:
            row = runs.find_run(session, caller, run)
            if number < 1:
                raise InvalidRequest("round: rounds are counted from 1")
            return evidence.run_round(session, row, number)

    def run_cost(self, caller: Caller, run: str) -> cost_shapes.RunCost:
        """What a run has spent and what is still open, with device time by round and phase."""
        caller.need(READ)
        with self._store.read() as session:
            return costs.run_cost(session, runs.find_run(session, caller, run))

    def steer(self, caller: Caller, run: str, text: object) -> shapes.SteerTicket:
        """Queue guidance for the run's next turn; reads show it delivered, or dropped and why."""
        caller.need("training.run")
        return self._write(steering.steer, caller, run, text)

    def directives(self, caller: Caller, run: str) -> list[shapes.DirectiveShape]:
        """Standing instructions of a run, oldest first."""
        caller.need(READ)
        with self._store.read() as session:
            return receipts.directives(session, runs.find_run(session, caller, run).id)

    def add_directive(self, caller: Caller, run: str, text: object) -> shapes.DirectiveShape:
        """Add an instruction that stands for all later rounds."""
        caller.need("training.run")
        return self._write(steering.add_directive, caller, run, text)

    def control(
        self,
        caller: Caller,
        run: str,
        action: object,
        rounds: object = None,
        limits: object = None,
    ) -> shapes.RunControl:
        """Stop, extend or resume a run; the answer already shows the effect."""
        control.need_for(caller, action)
        return self._write(control.control, caller, run, action, rounds, limits)

    def start_options(self, caller: Caller) -> shapes.StartOptions:
        """What a new run can be started with."""
        caller.need(READ)
        with self._store.read() as session:
            return start_options(session)

    def start_fields(self, caller: Caller, run: str) -> dict[str, Any]:
        """What a new run like that one is started with."""
        return self._read(caller, fields_like, run)

    def device(self, caller: Caller) -> shapes.Device:
        """The machine: who holds it, who waits and why, what memory it has and who else uses it."""
        return self._read(caller, machine.device, self._device, self._machine)

    def memory_ahead(
        self, caller: Caller, preset: str, domain: str | None = None, base_model: str | None = None
    ) -> shapes.MemoryAhead | None:
        """The memory that a live run of a preset takes here; None when nobody knows."""
        caller.need(READ)
        return machine.memory_ahead(self._machine, preset, domain, base_model)

    # Jobs

    def list_jobs(
        self,
        caller: Caller,
        *,
        type: str | None = None,
        status: str | None = None,
        limit: int = 25,
        cursor: str | None = None,
    ) -> job_shapes.JobPage:
        """A page of the project's jobs, newest first."""
        return self._read(
            caller, jobs.list_jobs, type=type, status=status, limit=limit, cursor=cursor
        )

    def job(self, caller: Caller, job: str) -> job_shapes.JobItem:
        """One job."""
        return self._read(caller, jobs.job_item, job)

    def job_result(self, caller: Caller, job: str) -> job_shapes.JobResult:
        """A job's outcome in figures."""
        return self._read(caller, jobs.job_result, job)

    def job_progress(self, caller: Caller, job: str) -> shapes.Progress | None:
        """How far a training by hand is, while it goes on."""
        return self._read(caller, jobs.job_progress, job)

    def job_events(self, caller: Caller, job: str) -> job_shapes.JobEventPage:
        """When a job entered which state."""
        return self._read(caller, jobs.job_events, job)

    def job_logs(
        self,
        caller: Caller,
        job: str,
        *,
        source: str = "all",
        tail: int | None = 200,
        limit: int = 200,
        cursor: str | None = None,
    ) -> job_shapes.LogPage:
        """The last lines of a job's log, or those after a cursor."""
        return self._read(
            caller, job_logs.job_logs, job, source=source, tail=tail, limit=limit, cursor=cursor
        )

    def submit_job(self, caller: Caller, body: object) -> job_shapes.JobStarted:
        """Take in work without a loop: a training, or the deployment of a version."""
        return self._write(submit.submit, caller, self._home, body)

    def stop_job(self, caller: Caller, job: str) -> job_shapes.JobStopped:
        """Ask for a job's end; a loop's job ends with its run."""
        control.need_for(caller, "stop")
        return self._write(jobs.stop_job, caller, job)

    def change_endpoint(self, caller: Caller, job: str, action: str) -> job_shapes.JobItem:
        """Pause, resume or wake a deployed model."""
        caller.need("deploy")
        return self._write(jobs.change_endpoint, caller, job, action)

    def endpoints(self, caller: Caller) -> list[job_shapes.JobItem]:
        """The jobs of all deployed versions, newest first."""
        return self._read(caller, jobs.endpoints_now)

    def deployed_models(self, caller: Caller, job: str | None = None) -> job_shapes.DeployedModels:
        """Every deployed version, or a job's one, by the name that calls give as `model`."""
        return self._read(caller, endpoints.deployed_models, job)

    def deployed_model(self, caller: Caller, name: str) -> job_shapes.DeployedModel:
        """One deployed version by that name."""
        return endpoints.model_shape(self._read(caller, endpoints.model_named, name))

    def answering_job(self, caller: Caller, model: object, job: str | None = None) -> str:
        """The job that answers for a model name, or the job itself where a call names it."""
        caller.need("inference.use")
        if job is not None:
            return self._read(caller, endpoints.endpoint_job, job).id
        return self._read(caller, endpoints.model_named, model).id

    def answer(
        self,
        caller: Caller,
        route: str,
        body: Mapping[str, Any],
        job: str | None = None,
        left: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """A deployed version's whole answer; one that sleeps is woken and waited for.

        `route` is "chat/completions" or "completions", `body` and answer are those of OpenAI's API.
        `left` says whether the caller has gone.
        """
        found = self.answering_job(caller, body.get("model"), job)
        return self._lent().ask(found, route, body, caller.actor, left)

    def answer_stream(
        self, caller: Caller, route: str, body: Mapping[str, Any], job: str | None = None
    ) -> Chunks:
        """The same in chunks; `close()` of what comes back ends the generation."""
        found = self.answering_job(caller, body.get("model"), job)
        return self._lent().stream(found, route, body, caller.actor)

    def _lent(self) -> Lent:
        if self._completions is None:
            raise EndpointNotReady("no engine answers in this process: start python3 run.py")
        return self._completions

    def checkpoints(
        self,
        caller: Caller,
        *,
        job: str | None = None,
        run: str | None = None,
        limit: int = 25,
        cursor: str | None = None,
    ) -> job_shapes.CheckpointPage:
        """A page of what was trained, newest first."""
        found = checkpoints.list_checkpoints
        return self._read(caller, found, self._home, job=job, run=run, limit=limit, cursor=cursor)

    def checkpoint_links(
        self, caller: Caller, base: str, path: str, job: str | None = None, run: str | None = None
    ) -> job_shapes.CheckpointDownload:
        """Where a checkpoint's files can be had; `base` is this server's address."""
        links = downloads.links_to
        return self._read(caller, links, self._home, self._links, base, path=path, job=job, run=run)

    def checkpoint_file(self, checkpoint: str, name: str, token: str) -> Path:
        """One file of a checkpoint for whoever holds a link to it."""
        return downloads.file_of(self._home, self._links, checkpoint, name, token)

    def checkpoint_zip(self, checkpoint: str, token: str) -> Iterator[bytes]:
        """All files of a checkpoint for whoever holds a link to it."""
        return downloads.zip_of(self._home, self._links, checkpoint, token)

    def delete_checkpoint(
        self, caller: Caller, checkpoint: str, dry_run: bool = False
    ) -> job_shapes.Deletion:
        """Delete what was trained; with `dry_run` only tell what that would free."""
        caller.need("deploy")
        return checkpoint_removal.delete(self._store, caller, self._home, checkpoint, dry_run)

    def operation(self, caller: Caller, operation: str) -> job_shapes.Deletion:
        """How far something is that takes a while."""
        return self._read(caller, checkpoint_removal.deletion, self._home, operation)

    def training_models(self, caller: Caller) -> job_shapes.TrainingModelPage:
        """The base models that can be trained here."""
        caller.need(READ)
        return training_models(self._home)

    # Identity, project, money

    def check_scope(self, caller: Caller, workspace: str | None, project: str | None) -> None:
        """AccessDenied when a request names another workspace or project than the caller's."""
        identity.check_scope(caller, workspace, project)

    def me(self, caller: Caller) -> project_shapes.Me:
        """Who asks, where, and what they may do."""
        return self._read(caller, identity.me)

    def workspaces(self, caller: Caller) -> project_shapes.WorkspacePage:
        """The workspaces that the caller may use."""
        return self._read(caller, identity.workspaces)

    def projects(self, caller: Caller, workspace: str) -> project_shapes.ProjectPage:
        """The projects of a workspace that the caller may use."""
        return self._read(caller, identity.projects, workspace)

    def project(self, caller: Caller, workspace: str, project: str) -> project_shapes.ProjectDetail:
        """One project."""
        return self._read(caller, identity.project, workspace, project)

    def limits(self, caller: Caller, workspace: str, project: str) -> project_shapes.ProjectLimits:
        """How much may run at once in a project."""
        return self._read(caller, identity.limits, workspace, project)

    def members(self, caller: Caller, workspace: str, project: str) -> project_shapes.MemberPage:
        """Who belongs to a project."""
        return self._read(caller, identity.members, workspace, project)

    def change_project(self, caller: Caller, workspace: str, project: str) -> None:
        """Refused at this door, to keys and to people in their own words."""
        self._read(caller, identity.change_project, workspace, project)

    def billing_account(self, caller: Caller) -> project_shapes.BillingAccount:
        """What the project has spent beside its cap."""
        return self._read(caller, billing.account)

    def billing_usage(
        self, caller: Caller, start: str, end: str, group_by: str = "day"
    ) -> project_shapes.UsagePage:
        """Money and device time between two moments."""
        return self._read(caller, billing.usage, start, end, group_by)

    def billing_ledger(
        self, caller: Caller, limit: int = 25, cursor: str | None = None
    ) -> project_shapes.LedgerPage:
        """Every change of the project's account, newest first."""
        return self._read(caller, billing.ledger, limit, cursor)

    def billing_prices(self, caller: Caller) -> project_shapes.PricePage:
        """What the models behind the gateway cost."""
        return self._read(caller, billing.prices)

    # What is not here

    def empty_list(
        self, caller: Caller, limit: int = 25, cursor: str | None = None
    ) -> project_shapes.EmptyPage:
        """A page of a list that this server has nothing for."""
        caller.need(READ)
        return catalog.empty_page(limit, cursor)

    def missing(self, caller: Caller, kind: str, name: str) -> project_shapes.EmptyPage:
        """NotFound for a thing of a kind that this server has none of."""
        caller.need(READ)
        raise catalog.not_here(kind, name)

    def unsupported(self, caller: Caller, capability: str, what: str) -> project_shapes.EmptyPage:
        """Unsupported: something that this server does not offer."""
        caller.need(capability)
        raise catalog.unsupported(what)

    def _read(self, caller: Caller, look: Callable[..., Found], *args: Any, **more: Any) -> Found:
        """What `look(session, caller, ...)` finds in one snapshot; needs the capability to read."""
        caller.need(READ)
        with self._store.read() as session:
            return look(session, caller, *args, **more)

    def _write(self, change: Callable[..., Found], caller: Caller, *args: Any) -> Found:
        """What `change(session, caller, ...)` answers, once it is committed."""
        return self._store.write(lambda session: change(session, caller, *args))
