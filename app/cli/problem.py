"""What goes wrong on the command line: a code, a fixed explanation, what to do next."""

from typing import NamedTuple


class Words(NamedTuple):
    """What a person reads about a code."""

    explanation: str
    hint: str


class Problem(Exception):
    """Ends a command with exit code 1.

    `code` is the server's or our own, `status` the HTTP status when there was an answer, `reason`
    the server's word for a cause that has words of its own. The server's message is not shown: it
    may repeat what models and people wrote.
    """

    def __init__(self, code: str, status: int | None = None, reason: str | None = None) -> None:
        super().__init__(code)
        self.code, self.status, self.reason = code, status, reason

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        if self.status is None:
            return self.code in {"NETWORK_ERROR", "REQUEST_TIMEOUT", "NO_SERVER"}
        return self.status == 429 or self.status >= 500

    def __str__(self) -> str:
        words = BY_REASON.get(self.reason or "") or BY_CODE.get(self.code) or self._by_status()
        answered = f" (HTTP {self.status})" if self.status is not None else ""
        return f"{self.code}: {words.explanation}{answered}\nHint: {words.hint}"

    def _by_status(self) -> Words:
        status = self.status or 500
        return BY_STATUS.get(status) or BY_STATUS[500 if status >= 500 else 400]


_LOOK = "Look at it first: el job run live RUN."
_FIELDS = "el job run start --help lists the fields; a run's id is 1 to 64 of a-z, 0-9 and dashes."
_TEXT = Words("The text was refused.", "Give 1 to 4000 characters that are not all blank.")
_ANOTHER_REQUEST = Words(
    "This request_id was used for another request.", "Give a new one, or leave it out."
)
_START = (
    "Start one on this machine with python3 run.py, or set ENVLOOP_BASE_URL and ENVLOOP_API_KEY."
)
_ADDRESS = (
    "Give one like http://127.0.0.1:8710 or https://lab.example; http is for this machine alone."
)
_KEY = (
    "Unset ENVLOOP_API_KEY to use this machine's own key, or make one: python3 run.py key create."
)
_LATER = "Wait a moment, then try again; the server's log says more."
_WITH_SERVER = "Is this address a Pawl server? Its root page is the console."

BY_CODE = {
    # of this command line
    "NO_SERVER": Words("No server runs on this machine.", _START),
    "NETWORK_ERROR": Words("The server could not be reached.", f"Is it running? {_START}"),
    "REQUEST_TIMEOUT": Words("The server did not answer in time.", _LATER),
    "INVALID_RESPONSE": Words("What came back is not the API's JSON.", _WITH_SERVER),
    "INVALID_BASE_URL": Words("ENVLOOP_BASE_URL is no address of a server.", _ADDRESS),
    "INVALID_API_KEY": Words(
        "The key is not of the right form: 1 to 512 letters, digits and . _ ~ -", _KEY
    ),
    "INVALID_CONFIGURATION": Words(
        "The settings saved in ENVLOOP_HOME cannot be read.", "Mend them, or unset ENVLOOP_HOME."
    ),
    "FILE_ERROR": Words(
        "The file could not be read.",
        "Give the path of a readable text file, or - for standard input.",
    ),
    "AGENT_RUN_NOT_FOUND": Words(
        "No training job that this key sees carries that run's label.",
        "See what there is: el job run list.",
    ),
    # of the server
    "UNAUTHORIZED": Words("The key is missing, unknown, expired or revoked.", _KEY),
    "ACCESS_DENIED": Words(
        "The key may not do this.", "Use a key with the capability: python3 run.py key create."
    ),
    "HUMAN_SESSION_REQUIRED": Words("Only a signed-in person may do this.", "Use the console."),
    "RSI_RUN_NOT_FOUND": Words(
        "No run of that name is visible to this key.", "See what there is: el job run list."
    ),
    "INVALID_RSI_REQUEST": Words("A field of the request was refused.", _FIELDS),
    "INVALID_STEER": _TEXT,
    "INVALID_DIRECTIVE": _TEXT,
    "RSI_CONFLICT": Words(
        "The run's id is taken, or the state of the run or the machine does not allow this.",
        f"For a start, choose another id. For a stop, extend or resume: {_LOOK}",
    ),
    "RSI_RUN_NOT_ACTIVE": Words("The run is over, so nobody would read this.", _LOOK),
    "RSI_CONTROL_UNCONFIGURED": Words(
        "This server runs no loops.", "Use a server with an engine: python3 run.py."
    ),
    "RSI_CONTROL_UNAVAILABLE": Words("The loop engine does not answer.", _LATER),
    "RSI_CONTROL_TIMEOUT": Words(
        "The loop engine took too long.", "It may have done it all the same. " + _LOOK
    ),
    "JOB_NOT_FOUND": Words(
        "No job of that id is visible to this key.", "See what there is: el job list."
    ),
    "CONFLICT": Words("The job's state does not allow this.", "Look at it: el job get ID."),
    "REQUEST_CONFLICT": _ANOTHER_REQUEST,
    "TRAIN_JOB_IDEMPOTENCY_CONFLICT": _ANOTHER_REQUEST,
    "JOB_ACTION_UNSUPPORTED": Words(
        "The job's kind knows no such action.", "Look at it: el job get ID."
    ),
    "INVALID_LIMIT": Words("A page has 1 to 100 items.", "Give another --limit."),
    "INVALID_CURSOR": Words("The cursor is not one of this list.", "Begin without --cursor."),
    "INVALID_JOB_TYPE": Words(
        "There is no such kind of job.", "Give agent, sandbox, train or inference."
    ),
    "INVALID_TRAIN_JOB_STATUS": Words(
        "There is no such job status.",
        "Give queued, pending, starting, running, recovering, cancelling, completed, failed or "
        "cancelled.",
    ),
    "LOG_CURSOR_INVALID": Words(
        "The cursor is not one of this log.", "Begin without --cursor, or with --tail."
    ),
    "LOG_CURSOR_EXPIRED": Words("The log begins later than that by now.", "Begin with --tail."),
    "INSUFFICIENT_BALANCE": Words("There is not enough money left.", "Raise the project's cap."),
}
BY_REASON = {
    "SANDBOX_UNAVAILABLE": Words(
        "The domain runs code that a model wrote, and no sandbox works on the server.",
        "python3 run.py doctor on the server's machine says what is missing.",
    ),
    "UNSUPPORTED_HARDWARE": Words(
        "The server's machine has too little memory for such a run.",
        "Choose a smaller base model, or a preset with a smaller batch.",
    ),
    "PRICE_UNKNOWN": Words(
        "A remote model of the run has no known price.",
        "Have an administrator enter it, or name another model.",
    ),
}
BY_STATUS = {
    300: Words("The server answered with a redirect.", _WITH_SERVER),
    400: Words("The server refused the request.", _WITH_SERVER),
    401: BY_CODE["UNAUTHORIZED"],
    403: BY_CODE["ACCESS_DENIED"],
    404: Words("There is no such thing on this server.", _WITH_SERVER),
    409: Words("The state of things does not allow this.", "Look at it first, then try again."),
    413: Words("The request is too large.", "Shorten the text."),
    422: Words("A field of the request was refused.", "See --help of the command."),
    429: Words("Too many requests at once.", "Wait a moment, then go on."),
    500: Words("The server failed.", _LATER),
}
