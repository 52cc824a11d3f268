"""Tells who a key, a one-time sign-in link or a session cookie belongs to.

Tokens leave this file once, when they are made; the database has their SHA-256 alone.
"""

import hmac
from datetime import timedelta
from functools import partial

from sqlalchemy import delete
from sqlmodel import Session, col, select

from app.caller import CAPABILITIES, ROLES, Caller
from app.cli_grants import CliGrants
from app.keys import Keys, is_alive
from app.people import OWNER, People
from app.settings import Settings
from app.throttle import Throttle
from app.tokens import digest, from_now, new_key, new_token
from data.home import Home, write_secret
from data.store import Store
from data.tables import ApiKey, Project, SignIn, User, now

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
        self.keys = Keys(store, OWNER)
        self.people = People(store)
        self.settings = Settings(store)
        self.grants = CliGrants(store)
        self.throttle = Throttle(store)

    def ensure_owner(self) -> None:
        """Make the owner, the first project and `owner.key` (0600) where they are missing.

        The file is the truth: its hash is what the database accepts from now on.
        """
        key = self._owner_key()
        self._store.write(partial(_record_owner, digest(key)))

    def sign_in_link(self, base_url: str) -> str:
        """A new link below `base_url` that signs the owner in once, within an hour."""
        token = new_token()
        row = SignIn(
            token_hash=digest(token), kind="link", user_id=OWNER, expires_at=from_now(LINK_LIFE)
        )
        self._store.write(lambda session: session.add(row))
        return f"{base_url.rstrip('/')}/sign-in?link={token}"

    def open_session(self, token_or_key: str) -> str | None:
        """A new session's token for a link's token (used up by it) or the owner's key, else None."""
        token = new_token()
        opened = self._store.write(partial(_open_by_token, digest(token_or_key), digest(token)))
        return token if opened else None

    def open_session_by_password(self, name: str, password: str) -> str | None:
        """A new session's token for a right password, else None; both take a fifth of a second."""
        user_id = self.people.password_is_right(name, password)
        if user_id is None:
            return None
        token = new_token()
        opened = self._store.write(partial(_open, user_id, digest(token)))
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
        if extend and row.expires_at < from_now(SESSION_IDLE - EXTEND_EVERY):
            self._store.post(partial(_extend, row.token_hash))
        return Caller(
            actor=user.name,
            workspace_id=WORKSPACE,
            project_id=PROJECT,
            capabilities=ROLES[user.role],
            user_id=user.id,
            sign_in=row.token_hash,
        )

    def caller_of_key(self, key: str) -> Caller | None:
        """Who a bearer key stands for, or None when it is unknown, expired or revoked."""
        with self._store.read() as session:
            row = _key_row(session, digest(key))
            project = session.get(Project, row.project_id) if row else None
            allowed = _allowed(session, row) if row else frozenset()
        if row is None or project is None:
            return None
        if row.last_used_at is None or row.last_used_at < from_now(-KEY_USE_EVERY):
            self._store.post(partial(_key_used, row.id))
        return Caller(
            actor=OWNER if row.id == OWNER else f"key:{row.name}",
            workspace_id=project.workspace_id,
            project_id=project.id,
            capabilities=allowed,
            key_id=row.id,
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


def _record_owner(key_hash: str, session: Session) -> None:
    if session.get(Project, PROJECT) is None:
        session.add(Project(id=PROJECT, workspace_id=WORKSPACE, name="Default"))
    if session.get(User, OWNER) is None:
        session.add(User(id=OWNER, name=OWNER, role="admin"))
    key = session.get(ApiKey, OWNER)
    if key is None:
        key = ApiKey(id=OWNER, project_id=PROJECT, name=OWNER, key_hash=key_hash)
        key.made_by = OWNER
        key.capabilities = sorted(ROLES["developer"])
    key.key_hash, key.revoked_at = key_hash, None
    session.add(key)


def _open_by_token(given: str, fresh: str, session: Session) -> bool:
    user_id = _use_link(session, given) or _user_of_key(session, given)
    return user_id is not None and _open(user_id, fresh, session)


def _open(user_id: str, fresh: str, session: Session) -> bool:
    """Write a session down; False when the person was removed a moment ago."""
    user = session.get(User, user_id)
    if user is None:
        return False
    session.execute(delete(SignIn).where(col(SignIn.expires_at) < now()))
    session.add(
        SignIn(token_hash=fresh, kind="session", user_id=user_id, expires_at=from_now(SESSION_IDLE))
    )
    user.signed_in_at = now()
    session.add(user)
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
    return row if is_alive(row) else None


def _allowed(session: Session, row: ApiKey) -> frozenset[str]:
    """What a key may do: never administer, and a person's own key no more than the person."""
    allowed = (CAPABILITIES - {"admin"}) & frozenset(row.capabilities)
    if row.user_id is None:
        return allowed
    person = session.get(User, row.user_id)
    return allowed & ROLES[person.role] if person else frozenset()


def _extend(token_hash: str, session: Session) -> None:
    row = session.get(SignIn, token_hash)
    if row is not None and _alive(row):
        row.expires_at = from_now(SESSION_IDLE)
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
