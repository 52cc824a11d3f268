"""What can go wrong inside the engine, named by the boundary that failed.

EngineError
├── Interrupted          a stop or shutdown was asked for; the step goes on later
├── CapReached           the ledger refused: a cap would be passed
│   └── PriceBoundViolated  a model cost more than the worst case of what it was allowed
├── NeedsMending         a person must mend something first; the run is paused until then
│   ├── DiskFull         no room to go on with
│   ├── ModelUnavailable a base model or adapter is missing, incomplete or not allowed
│   └── SandboxMissing   no sandbox works here, so no code can be judged
├── WorkerFailed         the worker process reported an error
│   ├── WorkerLost       the worker process ended or fell silent
│   └── OutOfMemory      memory ran out even after the batch was halved
├── GatewayFailed        a model behind the gateway gave no usable answer
│   └── RequestsUsedUp   a round has asked its models as often as it may; the run goes on
├── RequestRefused       what was asked of a deployed version cannot be answered as asked
├── EndpointNotReady     a deployed version is paused, ended or failed
├── HostGone             the process that answers for deployed versions ended or fell silent
├── ProbeFailed          another adapter answered than the one that was asked
├── DrawExhausted        a split has too few fresh tasks for what is asked of it
└── StepFailed           a phase cannot go on; the round ends with this reason
"""


class EngineError(Exception):
    """Root of everything the engine raises on purpose; the text is shown to people."""


class Interrupted(EngineError):
    """A stop or shutdown was asked for; what is done is kept and the step goes on later."""


class CapReached(EngineError):
    """The ledger refused a reservation because a cap would be passed."""


class PriceBoundViolated(CapReached):
    """A model cost more than the worst case of what it was allowed: nobody calls it until an
    administrator confirms it, and runs that need it stop."""


class NeedsMending(EngineError):
    """Something outside the run must be mended first; the text says what, the run is paused."""


class DiskFull(NeedsMending):
    """The disk is full, or too full to begin."""


class ModelUnavailable(NeedsMending):
    """A base model or adapter is missing, incomplete or not allowed."""


class SandboxMissing(NeedsMending):
    """No sandbox works here, so no code can be judged; the text is the sandbox engine's own."""


class WorkerFailed(EngineError):
    """The worker process reported an error."""


class WorkerLost(WorkerFailed):
    """The worker process ended or fell silent."""


class OutOfMemory(WorkerFailed):
    """Memory ran out, even after the batch was halved as often as allowed."""


class GatewayFailed(EngineError):
    """A model behind the gateway gave no usable answer."""


class RequestsUsedUp(GatewayFailed):
    """A round has asked its models as often as it may; the phase does without, the run goes on."""


class RequestRefused(EngineError):
    """A request to a deployed version that cannot be answered as asked; the text says why.

    `code` is a word for programs, such as context_length_exceeded.
    """

    def __init__(self, text: str, code: str = "invalid_request") -> None:
        super().__init__(text)
        self.code = code


class EndpointNotReady(EngineError):
    """A deployed version is paused, ended or failed; the text says which and what to do."""


class HostGone(EngineError):
    """The process that answers for deployed versions ended or fell silent."""


class ProbeFailed(EngineError):
    """Another adapter, or none, answered where one was asked; what was answered is not used."""


class DrawExhausted(EngineError):
    """A split has too few fresh tasks for what is asked of it."""


class StepFailed(EngineError):
    """A phase cannot go on; the round ends with this reason."""
