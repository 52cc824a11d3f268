"""Refusals of the service, named by what was refused; one table turns them into status and code.

ServiceError
├── Unauthorized     401  no key, or one that is unknown, expired or revoked
├── AccessDenied     403  the caller lacks the capability
├── RunNotFound      404  no such run, or not visible to the caller
├── NotFound         404  no such round, job or page
├── InvalidRequest   422  a field was refused; the text names it
├── Conflict         409  the state does not allow it
└── Unavailable      503  no engine takes up work here
"""


class ServiceError(Exception):
    """Root of all refusals; the text is for people."""

    status = 500
    code = "INTERNAL_SERVER_ERROR"


class Unauthorized(ServiceError):
    """No key, or one that is unknown, expired or revoked."""

    status, code = 401, "UNAUTHORIZED"


class AccessDenied(ServiceError):
    """The caller lacks the capability."""

    status, code = 403, "ACCESS_DENIED"


class RunNotFound(ServiceError):
    """No such run, or one that the caller cannot see: both look the same."""

    status, code = 404, "RSI_RUN_NOT_FOUND"


class NotFound(ServiceError):
    """No such round, job or page."""

    status, code = 404, "RESOURCE_NOT_FOUND"


class InvalidRequest(ServiceError):
    """A field was refused; the text names it and says what is allowed."""

    status, code = 422, "INVALID_RSI_REQUEST"


class Conflict(ServiceError):
    """The state of a thing does not allow what was asked."""

    status, code = 409, "RSI_CONFLICT"


class Unavailable(ServiceError):
    """No engine takes up work here."""

    status, code = 503, "RSI_CONTROL_UNAVAILABLE"
