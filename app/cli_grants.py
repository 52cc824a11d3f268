"""Browser sign-in of a command line: it asks, a signed-in person grants it a key it made itself.

Key, poll token and confirmation code never come here before they are used: the database has their
SHA-256, and of the key it never gets more.
"""

import hmac
import uuid
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from sqlalchemy import delete, func
from sqlmodel import Session, col, select

from app.caller import CAPABILITIES, Caller
from app.errors import AccessDenied, Conflict, InvalidRequest, NotFound
from app.keys import find_project, free_name
from app.tokens import digest, from_now
from data.store import Store
from data.tables import ApiKey, CliGrant, now

GRANT_SECONDS = 600
KEY_LIFE = timedelta(days=30)
KEPT = timedelta(days=1)
MOST_WAITING = 50
MOST_ATTEMPTS = 5
EXPIRED = "expired"


@dataclass(kw_only=True, slots=True, frozen=True)
class Asked:
    """What a person sees of a grant; `status` may also be "expired"."""

    id: str
    address: str
    status: str
    attempts_left: int


@dataclass(kw_only=True, slots=True, frozen=True)
class Answer:
    """What the command line gets when it polls."""

    status: str
    workspace_id: str | None = None
    project_id: str | None = None


class TooManyWaiting(Conflict):
    """So many command lines wait for a person that no further one is let in."""


class CliGrants:
    """Grants of one server: asked for by command lines, answered by people."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def start(self, *, key_hash: str, poll_hash: str, code_hash: str, address: str) -> str:
        """Note that a command line asks; the grant's id, good for ten minutes."""
        grant = CliGrant(
            id=str(uuid.uuid4()),
            key_hash=key_hash,
            poll_hash=poll_hash,
            code_hash=code_hash,
            address=address,
            expires_at=from_now(timedelta(seconds=GRANT_SECONDS)),
        )
        self._store.write(partial(_start, grant))
        return grant.id

    def poll(self, grant_id: str, poll_token: str) -> Answer:
        """How it stands, to the one who asked; AccessDenied to everybody else."""
        with self._store.read() as session:
            grant = _of(session, grant_id, poll_token)
        return Answer(
            status=_status(grant),
            workspace_id=grant.workspace_id,
            project_id=grant.project_id,
        )

    def cancel(self, grant_id: str, poll_token: str) -> Answer:
        """The command line has given up: nothing can be granted, and what was is revoked."""

        def change(session: Session) -> Answer:
            grant = _of(session, grant_id, poll_token)
            if grant.status in ("pending", "approved"):
                key = session.exec(select(ApiKey).where(ApiKey.key_hash == grant.key_hash)).first()
                if key is not None:
                    key.revoked_at = key.revoked_at or now()
                    session.add(key)
                grant.status = "cancelled"
                session.add(grant)
            return Answer(status=grant.status)

        return self._store.write(change)

    def look(self, grant_id: str) -> Asked:
        """A grant as a signed-in person sees it; NotFound for an unknown one."""
        with self._store.read() as session:
            return _asked(_known(session, grant_id))

    def approve(self, caller: Caller, grant_id: str, *, code: str, project: str) -> Asked:
        """Grant the key for a project, when the code is the one that the command line shows.

        It may do what the person may, but never administer, for 30 days and no longer than the
        person is here. InvalidRequest for a wrong code, of which five end the grant.
        """
        typed = digest("".join(code.split()).replace("-", "").upper())
        asked, right = self._store.write(partial(_approve, caller, grant_id, typed, project))
        if not right and asked.status == "denied":
            raise Conflict("the code was wrong five times; start the sign-in anew in the terminal")
        if not right:
            raise InvalidRequest(
                f"this is not the code in the terminal; {asked.attempts_left} more tries"
            )
        return asked

    def deny(self, caller: Caller, grant_id: str) -> Asked:
        """Refuse it."""
        _person(caller)

        def change(session: Session) -> Asked:
            grant = _waiting(session, grant_id)
            grant.status = "denied"
            session.add(grant)
            return _asked(grant)

        return self._store.write(change)


def _start(grant: CliGrant, session: Session) -> None:
    session.execute(delete(CliGrant).where(col(CliGrant.expires_at) < from_now(-KEPT)))
    waiting = select(func.count()).where(
        col(CliGrant.status) == "pending", col(CliGrant.expires_at) > now()
    )
    if session.exec(waiting).one() >= MOST_WAITING:
        raise TooManyWaiting(f"{MOST_WAITING} sign-ins wait already; try again in some minutes")
    known = session.exec(select(CliGrant.id).where(CliGrant.key_hash == grant.key_hash)).first()
    key = session.exec(select(ApiKey.id).where(ApiKey.key_hash == grant.key_hash)).first()
    if known or key:
        raise Conflict("key_hash: this key is known already; make a new one")
    session.add(grant)


def _approve(
    caller: Caller, grant_id: str, code_hash: str, project: str, session: Session
) -> tuple[Asked, bool]:
    """Whether the code was right; a wrong one is counted, so this must be committed as well."""
    user_id = _person(caller)
    grant = _waiting(session, grant_id)
    session.add(grant)
    if not hmac.compare_digest(code_hash, grant.code_hash):
        grant.attempts += 1
        if grant.attempts >= MOST_ATTEMPTS:
            grant.status = "denied"
        return _asked(grant), False
    found = find_project(session, project)
    grant.status, grant.project_id, grant.workspace_id = "approved", found.id, found.workspace_id
    key = ApiKey(
        id=f"cli-{grant.id[:8]}",
        project_id=found.id,
        name=free_name(session, f"el-{caller.actor[:48]}-{grant.id[:8]}"),
        key_hash=grant.key_hash,
        capabilities=sorted(caller.capabilities & (CAPABILITIES - {"admin"})),
        expires_at=from_now(KEY_LIFE),
        made_by=caller.actor,
        user_id=user_id,
    )
    session.add(key)
    return _asked(grant), True


def _person(caller: Caller) -> str:
    if caller.user_id is None:
        raise AccessDenied("sign in as a person to answer a command line")
    return caller.user_id


def _of(session: Session, grant_id: str, poll_token: str) -> CliGrant:
    grant = session.get(CliGrant, grant_id)
    if grant is None or not hmac.compare_digest(digest(poll_token), grant.poll_hash):
        raise AccessDenied("there is no such sign-in, or this is not its poll_token")
    return grant


def _known(session: Session, grant_id: str) -> CliGrant:
    grant = session.get(CliGrant, grant_id)
    if grant is None:
        raise NotFound("there is no such sign-in; start it anew in the terminal")
    return grant


def _waiting(session: Session, grant_id: str) -> CliGrant:
    grant = _known(session, grant_id)
    if _status(grant) != "pending":
        raise Conflict(f"this sign-in is {_status(grant)} already; start anew in the terminal")
    return grant


def _status(grant: CliGrant) -> str:
    over = grant.status == "pending" and grant.expires_at <= now()
    return EXPIRED if over else grant.status


def _asked(grant: CliGrant) -> Asked:
    return Asked(
        id=grant.id,
        address=grant.address,
        status=_status(grant),
        attempts_left=MOST_ATTEMPTS - grant.attempts,
    )
