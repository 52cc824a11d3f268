"""Tells who a key, a one-time sign-in link or a session cookie belongs to.

Tokens leave this file once, when they are made; the database has their SHA-256 alone.
"""

import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import delete
from sqlmodel import Session, col, select

from app.caller import CAPABILITIES, ROLES, Caller
from data.home import Home, write_secret
from data.store import Store
from data.tables import ApiKey, Project, SignIn, User, now

OWNER = "owner"
PROJECT, WORKSPACE = "prj_local", "ws_local"
SESSION_IDLE = timedelta(hours=8)
LINK_LIFE = timedelta(hours=1)
EXTEND_EVERY = timedelta(minutes=5)  # a session in use is written down no more often than this
KEY_USE_EVERY = timedelta(minutes=1)


class Access:
    """Sign-ins and keys of one home. Reads take under a millisecond; opening waits for a commit."""

    def __init__(self, store: Store, home: Home) -> None:
        self._store = store
        self._home = home

    def ensure_owner(self) -> None:
        """Make the owner, the first project and `owner.key` (0600) where they are missing.

        The file is the truth: its hash is what the database accepts from now on.
        """
        key = self._owner_key()
        self._store.write(partial(_record_owner, digest(key)))

    def sign_in_link(self, base_url: str) -> str:
        """A new link below `base_url` that signs the owner in once, within an hour."""
        token = secrets.token_urlsafe(32)
        row = SignIn(
            token_hash=digest(token), kind="link", user_id=OWNER, expires_at=_in(LINK_LIFE)
        )
        self._store.write(lambda session: session.add(row))
        return f"{base_url.rstrip('/')}/sign-in?link={token}"

    def open_session(self, token_or_key: str) -> str | None:
        """A new session's token for a link's token (used up by it) or the owner's key, else None."""
        token = secrets.token_urlsafe(32)
        opened = self._store.write(partial(_open, digest(token_or_key), digest(token)))
        return token if opened else None

    def caller_of_session(self, token: str, *, extend: bool = True) -> Caller | None:
        """Who a session cookie stands for, or None; using it starts its 8 idle hours again."""
        with self._store.read() as session:
            row = session.get(SignIn, digest(token))
            if row is None or row.kind != "session" or not _alive(row):
                return None
            user = session.get(User, row.user_id)
        if user is None:
            return None
        if extend and row.expires_at < _in(SESSION_IDLE - EXTEND_EVERY):
            self._store.post(partial(_extend, row.token_hash))
        return Caller(
            actor=user.name,
            workspace_id=WORKSPACE,
            project_id=PROJECT,
            capabilities=ROLES[user.role],
        )

    def caller_of_key(self, key: str) -> Caller | None:
        """Who a bearer key stands for, or None when it is unknown, expired or revoked."""
        with self._store.read() as session:
            row = _key_row(session, digest(key))
            project = session.get(Project, row.project_id) if row else None
        if row is None or project is None:
            return None
        if row.last_used_at is None or row.last_used_at < _in(-KEY_USE_EVERY):
            self._store.post(partial(_key_used, row.id))
        return Caller(
            actor=OWNER if row.id == OWNER else f"key:{row.name}",
            workspace_id=project.workspace_id,
            project_id=project.id,
            capabilities=(CAPABILITIES - {"admin"}) & frozenset(row.capabilities),
        )

    def end_session(self, token: str) -> None:
        """Sign out: the token is worth nothing from now on."""
        self._store.write(partial(_end, digest(token)))

    def project_name(self, project_id: str) -> str:
        """What people call a project."""
        with self._store.read() as session:
            project = session.get(Project, project_id)
        return project.name if project else project_id

    def _owner_key(self) -> str:
        path = self._home.owner_key
        write_secret(path, f"{new_key(OWNER)}\n")
        path.chmod(0o600)
        key = path.read_text().strip()
        if not key.startswith("pawl_"):  # a crash right after its creation leaves an empty file
            path.unlink()
            return self._owner_key()
        return key


def cookie_name(port: int) -> str:
    """The session cookie's name: cookies do not tell ports apart, so the name has to."""
    return f"pawl_{port}"


def new_key(key_id: str) -> str:
    """The text of a new key: `pawl_<id>_<32 random bytes>`."""
    return f"pawl_{key_id}_{secrets.token_urlsafe(32)}"


def digest(token: str) -> str:
    """What is stored of a token: its SHA-256 in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def _record_owner(key_hash: str, session: Session) -> None:
    if session.get(Project, PROJECT) is None:
        session.add(Project(id=PROJECT, workspace_id=WORKSPACE, name="Default"))
    if session.get(User, OWNER) is None:
        session.add(User(id=OWNER, name=OWNER, role="admin"))
    key = session.get(ApiKey, OWNER)
    if key is None:
        key = ApiKey(id=OWNER, project_id=PROJECT, name=OWNER, key_hash=key_hash)
        key.capabilities = sorted(ROLES["developer"])
    key.key_hash, key.revoked_at = key_hash, None
    session.add(key)


def _open(given: str, fresh: str, session: Session) -> bool:
    user_id = _use_link(session, given) or _user_of_key(session, given)
    if user_id is None:
        return False
    session.execute(delete(SignIn).where(col(SignIn.expires_at) < now()))
    session.add(
        SignIn(token_hash=fresh, kind="session", user_id=user_id, expires_at=_in(SESSION_IDLE))
    )
    return True


def _use_link(session: Session, given: str) -> str | None:
    row = session.get(SignIn, given)
    if row is None or row.kind != "link" or not _alive(row):
        return None
    row.ended_at = now()
    session.add(row)
    return row.user_id


def _user_of_key(session: Session, given: str) -> str | None:
    """Keys belong to projects; the owner's is the one key that stands for a person."""
    row = _key_row(session, given)
    return OWNER if row is not None and row.id == OWNER else None


def _key_row(session: Session, given: str) -> ApiKey | None:
    row = session.exec(select(ApiKey).where(ApiKey.key_hash == given)).first()
    if row is None or not hmac.compare_digest(row.key_hash, given):
        return None
    expired = row.expires_at is not None and row.expires_at <= now()
    return None if expired or row.revoked_at is not None else row


def _extend(token_hash: str, session: Session) -> None:
    row = session.get(SignIn, token_hash)
    if row is not None and _alive(row):
        row.expires_at = _in(SESSION_IDLE)
        session.add(row)


def _end(token_hash: str, session: Session) -> None:
    row = session.get(SignIn, token_hash)
    if row is not None and row.ended_at is None:
        row.ended_at = now()
        session.add(row)


def _key_used(key_id: str, session: Session) -> None:
    row = session.get(ApiKey, key_id)
    if row is not None:
        row.last_used_at = now()
        session.add(row)


def _alive(row: SignIn) -> bool:
    return row.ended_at is None and row.expires_at > now()


def _in(span: timedelta) -> str:
    """The moment `span` from now, written like every time in the tables."""
    moment = datetime.now(UTC) + span
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
