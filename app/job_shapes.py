"""What the service returns about jobs, logs and checkpoints.

In jobs unknown keys are left out: the published client lays a job over its `training`, where a null
would hide what is known.
"""

from typing import Any

from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer

from app.project_shapes import Operation


class Sparse(BaseModel):
    """Leaves out what is not known."""

    @model_serializer(mode="wrap")
    def known(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The fields that have a value."""
        return {name: value for name, value in handler(self).items() if value is not None}


class CheckpointPath(BaseModel):
    path: str  # envloop://JOB/CHECKPOINT


class Training(Sparse):
    """A training job's inside. `tags` and `user_metadata` always hold the same labels."""

    base_model: str | None = None
    model_id: str
    model_ids: list[str]
    transitions: list[Any]
    lora_rank: int | None = None
    checkpoint: CheckpointPath | None = None
    checkpoint_deleted_at: str | None = None  # when what it trained was deleted
    bookkeeping: bool | None = None  # true: nothing is trained
    simulated: bool | None = None  # true: no real model was asked or trained
    tags: dict[str, str]
    user_metadata: dict[str, str]


class Inference(Sparse):
    """A deployed version: its public name is `model`; `state` says whether a call has to wake it.

    `system` is what it is told where a caller gives no system message, as in its evaluation. Counts
    are of all calls so far.
    """

    model: str
    name: str  # what a person called it
    base_model: str
    checkpoint: str | None = None
    base_url: str  # what an OpenAI client takes
    replicas: int  # processes that answer for it now: 0 or 1
    state: str  # asleep | waking | ready | paused | ended
    engine: str | None = None  # such as "transformers-cpu-float32", of the last process
    system: str | None = None
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    last_call_at: str | None = None


class JobItem(Sparse):
    job_id: str
    type: str  # train | inference | agent | sandbox
    status: str  # queued pending starting running recovering cancelling completed failed cancelled
    created_at: str
    updated_at: str
    finished_at: str | None = None
    reason: str | None = None
    name: str | None = None  # what a person called it
    training: Training | None = None
    inference: Inference | None = None


class JobPage(BaseModel):
    items: list[JobItem]
    next_cursor: str | None = None
    observed_at: str


class JobResult(BaseModel):
    job_id: str
    status: str
    metrics: dict[str, float]
    simulated: bool


class JobStarted(Sparse):
    """A job that was taken in; the engine takes it up within a second."""

    job_id: str
    type: str
    status: str
    trials: list["JobStarted"] | None = None  # every job of a request that made several


class DeployedModel(BaseModel):
    """A deployed version in the words of OpenAI's API."""

    id: str
    object: str = "model"
    created: int  # seconds since 1970
    owned_by: str = "pawl"


class NamedModel(BaseModel):
    name: str
    description: str
    release_date: str


class DeployedModels(BaseModel):
    """Every deployed version, in the shapes of two APIs at once."""

    object: str = "list"
    data: list[DeployedModel]
    models: list[NamedModel]


class JobStopped(BaseModel):
    job_id: str
    status: str


class JobEvent(BaseModel):
    resource_id: str
    status: str
    at: str
    source: str


class JobEventPage(BaseModel):
    items: list[JobEvent]
    next_cursor: str | None = None


class LogLine(BaseModel):
    id: str
    at: str
    source: str  # system | runtime
    stream: str
    level: str  # info | error
    content: str


class LogSource(BaseModel):
    name: str  # system | runtime


class LogPage(BaseModel):
    """Part of a log. Following it ends where `eof` is true and `has_more` false."""

    items: list[LogLine]
    next_cursor: str | None
    has_more: bool
    eof: bool
    collection_status: str
    truncated: bool = False
    dropped_bytes: int = 0
    sources: list[LogSource]
    simulated: bool = False


class CheckpointFile(BaseModel):
    name: str
    size_bytes: int
    sha256: str


class CheckpointItem(BaseModel):
    checkpoint_id: str
    checkpoint_type: str
    base_model: str
    job_id: str
    train_job_id: str
    training_run_id: str
    tinker_checkpoint_id: str
    tinker_path: str
    created_at: str
    files: list[CheckpointFile]
    simulated: bool | None = None  # true: nothing was trained, so that it cannot be deployed


class CheckpointPage(BaseModel):
    items: list[CheckpointItem]
    next_cursor: str | None = None


class Deletion(Operation):
    """The removal of a checkpoint, as an operation that can be asked for."""

    dry_run: bool = False  # true: nothing was removed
    freed_bytes: int = 0
    names: list[str]  # of the versions that have these files: all of them lose the weights


class CheckpointDownload(BaseModel):
    """Links that need no key and end after a quarter of an hour: by file name, and to all as a zip."""

    checkpoint_id: str
    urls: dict[str, str]
    zip: str


class TrainingModel(BaseModel):
    name: str
    recipes: list[str]
    simulated: bool


class TrainingModelPage(BaseModel):
    items: list[TrainingModel]
    next_cursor: str | None = None
