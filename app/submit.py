"""Jobs that people and agents submit by hand: which kind, and who takes it in."""

from sqlmodel import Session

from app.caller import Caller
from app.errors import InvalidField, Unsupported
from app.job_shapes import JobStarted
from data.home import Home

NEEDS = {"inference": "deploy", "train": "training.run"}


def submit(session: Session, caller: Caller, home: Home, body: object) -> JobStarted:
    """Take in a job of the body's `type`; the engine takes it up within a second."""
    if not isinstance(body, dict):
        raise InvalidField("send a JSON object")
    kind = body.get("type")
    if not isinstance(kind, str) or kind not in NEEDS:
        raise Unsupported(f"type: jobs of type {kind!r} are not offered; train and inference are")
    caller.need(NEEDS[kind])
    from app import endpoints, hand_jobs  # here, so that a start does not wait for them

    if kind == "inference":
        return endpoints.deploy(session, caller, home, body)
    return hand_jobs.submit_training(session, caller, home, body)
