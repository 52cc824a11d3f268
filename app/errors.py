"""Refusals of the service, named by what was refused, each with its status and code.

ServiceError
├── Unauthorized        401  no key, or one that is unknown, expired or revoked
├── AccessDenied        403  the caller lacks the capability, or named a scope that is not theirs
├── HumanNeeded         403  only a signed-in person may do this
├── NotFound            404  no such thing, or not visible to the caller
│   ├── RunNotFound          run
│   ├── JobNotFound          job
│   ├── ModelNotFound        deployed version or base model
│   ├── CheckpointNotFound   checkpoint
│   ├── DatasetNotFound      dataset
│   ├── ProfileNotFound      profile
│   └── TrialNotFound        trial
├── CallRefused         400  a deployed version cannot answer what was asked as it was asked
├── InvalidRequest      422  a field was refused; the text names it
│   ├── InvalidSteer         the text of a steer
│   ├── InvalidDirective     the text of a directive
│   ├── InvalidLimit         how many items a page may have
│   ├── InvalidCursor        where a page begins
│   ├── InvalidJobType       which kind of job
│   ├── InvalidJobStatus     which state of a job
│   ├── InvalidLogCursor     where a page of a log begins
│   ├── InvalidField         a field outside the loop's routes
│   ├── InvalidTrainSpec     a field of a training without a loop
│   └── Unsupported          something that this server does not offer
├── Conflict            409  the state does not allow it
│   ├── RunNotActive         the run is over
│   ├── RequestConflict      a request_id that came before with another body
│   │   └── TrainRequestConflict of a training
│   ├── JobOver              the job has ended
│   ├── EndpointPaused       the deployed version is paused
│   ├── NothingTrained       a simulated version has no weights
│   ├── InUse                something still needs the thing
│   └── JobActionUnsupported the job's kind knows no such action
└── Unavailable         503  no engine takes up work here
    ├── CheckpointUnavailable  the files of a checkpoint are not whole here
    └── EndpointNotReady       a deployed version does not answer at present
"""

from typing import Any

LONGEST_MESSAGE = 1000  # characters; the client loses the code of a body of 8192 bytes or more
BROKEN = "something broke in the server; its log says what"


class ServiceError(Exception):
    """Root of all refusals; the text is for people, `reason` a word that programs may act on.

    By itself it is a fault of this server, told as BROKEN.
    """

    status = 500
    code = "INTERNAL_SERVER_ERROR"

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason

    def body(self) -> dict[str, Any]:
        """The one form in which every door tells a refusal."""
        told = {"code": self.code, "message": shown(str(self))}
        return told if self.reason is None else told | {"reason": self.reason}


def shown(text: str) -> str:
    """A message that any client can read: clipped, and without half characters."""
    whole = text.encode("utf-8", "replace").decode()
    return whole if len(whole) <= LONGEST_MESSAGE else whole[: LONGEST_MESSAGE - 1] + "…"


class Unauthorized(ServiceError):
    """No key, or one that is unknown, expired or revoked."""

    status, code = 401, "UNAUTHORIZED"


class AccessDenied(ServiceError):
    """The caller lacks the capability, or named a scope that is not theirs."""

    status, code = 403, "ACCESS_DENIED"


class HumanNeeded(ServiceError):
    """Only a signed-in person may do this; keys never administer."""

    status, code = 403, "HUMAN_SESSION_REQUIRED"


class NotFound(ServiceError):
    """No such thing, or not visible to the caller: both look the same."""

    status, code = 404, "RESOURCE_NOT_FOUND"


class RunNotFound(NotFound):
    """No such run, or one that the caller cannot see."""

    code = "RSI_RUN_NOT_FOUND"


class JobNotFound(NotFound):
    """No such job, or one of another project."""

    code = "JOB_NOT_FOUND"


class ModelNotFound(NotFound):
    """No version is deployed under that name, or no base model has it."""

    code = "MODEL_NOT_FOUND"


class CheckpointNotFound(NotFound):
    """No such checkpoint, or one of another project."""

    code = "CHECKPOINT_NOT_FOUND"


class DatasetNotFound(NotFound):
    """No such dataset."""

    code = "DATASET_NOT_FOUND"


class ProfileNotFound(NotFound):
    """No such profile."""

    code = "PROFILE_NOT_FOUND"


class TrialNotFound(NotFound):
    """No such trial."""

    code = "TRIAL_NOT_FOUND"


class CallRefused(ServiceError):
    """A deployed version cannot answer what was asked as it was asked; `reason` is a word for it."""

    status, code = 400, "INVALID_REQUEST"


class InvalidRequest(ServiceError):
    """A field was refused; the text names it and says what is allowed."""

    status, code = 422, "INVALID_RSI_REQUEST"


class InvalidSteer(InvalidRequest):
    """The text of a steer is missing, blank or too long."""

    code = "INVALID_STEER"


class InvalidDirective(InvalidRequest):
    """The text of a directive is missing, blank or too long."""

    code = "INVALID_DIRECTIVE"


class InvalidLimit(InvalidRequest):
    """A page has 1 to 100 items."""

    code = "INVALID_LIMIT"


class InvalidCursor(InvalidRequest):
    """A cursor that this server did not give out."""

    code = "INVALID_CURSOR"


class InvalidJobType(InvalidRequest):
    """No kind of job has that name."""

    code = "INVALID_JOB_TYPE"


class InvalidJobStatus(InvalidRequest):
    """No state of a job has that name."""

    code = "INVALID_TRAIN_JOB_STATUS"


class InvalidLogCursor(InvalidRequest):
    """A log cursor that this server did not give out."""

    code = "LOG_CURSOR_INVALID"


class InvalidField(InvalidRequest):
    """A field outside the loop's routes was refused."""

    code = "INVALID_REQUEST"


class InvalidTrainSpec(InvalidRequest):
    """A field of a training without a loop was refused."""

    code = "INVALID_TRAIN_JOB_SPEC"


class Unsupported(InvalidRequest):
    """Something that this server does not offer."""

    code = "UNSUPPORTED_CAPABILITY"


class Conflict(ServiceError):
    """The state of a thing does not allow what was asked."""

    status, code = 409, "RSI_CONFLICT"


class RunNotActive(Conflict):
    """The run is over: nobody would read it any more."""

    code = "RSI_RUN_NOT_ACTIVE"


class RequestConflict(Conflict):
    """A request_id came before, with another body."""

    code = "REQUEST_CONFLICT"


class TrainRequestConflict(RequestConflict):
    """The request_id of a training came before, with another body."""

    code = "TRAIN_JOB_IDEMPOTENCY_CONFLICT"


class JobOver(Conflict):
    """The job has ended."""

    code = "CONFLICT"


class NothingTrained(Conflict):
    """A simulated version has no weights, so that nothing can be done with them."""

    code = "UNSUPPORTED_CAPABILITY"


class EndpointPaused(Conflict):
    """The deployed version is paused: it is resumed first."""

    code = "CONFLICT"


class InUse(Conflict):
    """Something still needs the thing; the text says what."""

    code = "RESOURCE_IN_USE"


class JobActionUnsupported(Conflict):
    """The job's kind knows no such action."""

    code = "JOB_ACTION_UNSUPPORTED"


class Unavailable(ServiceError):
    """No engine takes up work here."""

    status, code = 503, "RSI_CONTROL_UNAVAILABLE"


class CheckpointUnavailable(Unavailable):
    """The files of a checkpoint are not whole on this disk."""

    code = "CHECKPOINT_UNAVAILABLE"


class EndpointNotReady(Unavailable):
    """A deployed version does not answer at present; the text says why and what to do."""

    code = "ENDPOINT_NOT_READY"
