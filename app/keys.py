"""API keys of a project: made, listed and revoked; a key is shown once and stored as its hash."""

import re
import secrets
from datetime import timedelta

from pydantic import BaseModel
from sqlmodel import Session, col, or_, select

from app.caller import ROLES, Caller
from app.errors import Conflict, InvalidRequest, NotFound
from app.tokens import digest, from_now, new_key
from data.store import Store
from data.tables import ApiKey, Project, now

PRESETS = {"developer": "Project automation", "viewer": "Read only"}
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._@-]{0,62}[A-Za-z0-9._@-])?")
LONGEST_DAYS = 3650


class KeyInfo(BaseModel):
    """What is known of a key; `state` is active, expired or revoked."""

    id: str
    name: str
    preset: str
    project_id: str
    state: str
    made_by: str | None
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class Keys:
    """The keys of all projects. An administrator sees them all, everybody else their own."""

    def __init__(self, store: Store, owner_key: str) -> None:
        self._store, self._owner_key = store, owner_key

    def create(
        self,
        caller: Caller,
        *,
        name: str,
        role: str,
        project: str | None = None,
        days: float | None = None,
    ) -> tuple[KeyInfo, str]:
        """A new key with what `role` may do but never administer, and its text, once.

        It ends after `days`, or not at all. InvalidRequest names what does not fit; Conflict when
        a key of that name is in use.
        """
        caller.need("admin")
        capabilities = key_capabilities(role)
        if days is not None and not 0 < days <= LONGEST_DAYS:
            raise InvalidRequest(f"expires: give more than 0 and at most {LONGEST_DAYS} days")
        key_id = secrets.token_hex(4)
        text = new_key(key_id)

        def change(session: Session) -> KeyInfo:
            row = ApiKey(
                id=key_id,
                project_id=find_project(session, project or caller.project_id).id,
                name=free_name(session, name),
                key_hash=digest(text),
                capabilities=sorted(capabilities),
                expires_at=from_now(timedelta(days=days)) if days else None,
                made_by=caller.actor,
            )
            session.add(row)
            session.flush()
            return _info(row)

        return self._store.write(change), text

    def visible(self, caller: Caller) -> list[KeyInfo]:
        """The keys that the caller may see, newest first."""
        query = select(ApiKey).order_by(col(ApiKey.created_at).desc(), col(ApiKey.id))
        if "admin" not in caller.capabilities:
            query = query.where(ApiKey.user_id == (caller.user_id or "nobody"))
        with self._store.read() as session:
            return [_info(row) for row in session.exec(query)]

    def revoke(self, caller: Caller, key_id: str) -> KeyInfo:
        """End a key for good; NotFound for one that the caller cannot see."""

        def change(session: Session) -> KeyInfo:
            row = session.get(ApiKey, key_id)
            own = row is not None and caller.user_id and row.user_id == caller.user_id
            if row is None or not ("admin" in caller.capabilities or own):
                raise NotFound(f"there is no key {key_id}; see the list of keys")
            if row.id == self._owner_key:
                raise Conflict("the owner's key is replaced by deleting owner.key and a new start")
            row.revoked_at = row.revoked_at or now()
            session.add(row)
            return _info(row)

        return self._store.write(change)

    def projects(self) -> dict[str, str]:
        """Names of the projects by id."""
        with self._store.read() as session:
            rows = session.exec(select(Project).order_by(col(Project.created_at)))
            return {row.id: row.name for row in rows}


def key_capabilities(role: str) -> frozenset[str]:
    """What a key of a role may do; InvalidRequest for one that no key has."""
    if role not in PRESETS:
        raise InvalidRequest(
            f"role: {role!r} is not one of {sorted(PRESETS)}; keys never administer"
        )
    return ROLES[role] - {"admin"}


def find_project(session: Session, project: str) -> Project:
    """A project by id or name; InvalidRequest that lists what there is."""
    named = or_(col(Project.id) == project, col(Project.name) == project)
    row = session.exec(select(Project).where(named)).first()
    if row is None:
        known = ", ".join(session.exec(select(Project.id)))
        raise InvalidRequest(f"project: there is no {project!r}; there are {known}")
    return row


def free_name(session: Session, name: str) -> str:
    """The name, when it can be given to a new key."""
    if not NAME.fullmatch(name):
        raise InvalidRequest("name: use 1 to 64 letters, digits, spaces and . _ - @")
    for row in session.exec(select(ApiKey).where(ApiKey.name == name)):
        if _state(row) == "active":
            raise Conflict(f"name: a key {name} is in use; revoke it first, or choose another name")
    return name


def is_alive(row: ApiKey) -> bool:
    """Whether a key is neither revoked nor past its end."""
    return _state(row) == "active"


def _state(row: ApiKey) -> str:
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at is not None and row.expires_at <= now() else "active"


def _info(row: ApiKey) -> KeyInfo:
    role = "developer" if "training.run" in row.capabilities else "viewer"
    return KeyInfo(
        id=row.id,
        name=row.name,
        preset=PRESETS[role],
        project_id=row.project_id,
        state=_state(row),
        made_by=row.made_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
    )
