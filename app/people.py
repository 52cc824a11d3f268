"""People with a password and a role: added, listed, changed and removed."""

import re
import secrets

from pydantic import BaseModel
from sqlalchemy import delete
from sqlmodel import Session, col, select

from app.caller import ROLES, Caller
from app.errors import AccessDenied, Conflict, InvalidRequest, NotFound
from app.passwords import check_password, hash_password, is_right
from data.store import Store
from data.tables import ApiKey, SignIn, User, now

OWNER = "owner"  # whoever has the machine: always there, always an administrator
NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")


class Person(BaseModel):
    """What is known of a person; `keys` are names of project keys they made that still work."""

    name: str
    role: str
    has_password: bool
    created_at: str
    signed_in_at: str | None
    keys: list[str] = []


class People:
    """The people of this server. Only an administrator sees or changes others."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, caller: Caller, *, name: str, role: str, password: str) -> Person:
        """A new person who can sign in at once; Conflict when the name is taken."""
        caller.need("admin")
        if not NAME.fullmatch(name):
            raise InvalidRequest("name: use 1 to 64 lower-case letters, digits and . _ - @")
        _check_role(role)
        check_password(password, name)
        row = User(
            id=f"usr_{secrets.token_hex(6)}",
            name=name,
            role=role,
            password_hash=hash_password(password),
        )

        def change(session: Session) -> Person:
            if session.exec(select(User).where(User.name == name)).first() is not None:
                raise Conflict(f"name: there is a person {name} already; choose another name")
            session.add(row)
            return _person(session, row)

        return self._store.write(change)

    def list_all(self, caller: Caller) -> list[Person]:
        """Everybody, by name."""
        caller.need("admin")
        with self._store.read() as session:
            rows = session.exec(select(User).order_by(col(User.name)))
            return [_person(session, row) for row in rows]

    def set_role(self, caller: Caller, name: str, role: str) -> Person:
        """Give another role; the person signs in anew, so that every page follows it."""
        caller.need("admin")
        _check_role(role)

        def change(session: Session) -> Person:
            row = _named(session, name)
            if row.id == OWNER and role != "admin":
                raise Conflict(f"{OWNER} is the last administrator and stays one")
            row.role = role
            session.add(row)
            end_sign_ins(session, row.id)
            return _person(session, row)

        return self._store.write(change)

    def remove(self, caller: Caller, name: str) -> Person:
        """Remove a person with their sign-ins and their own keys; project keys they made stay."""
        caller.need("admin")

        def change(session: Session) -> Person:
            row = _named(session, name)
            if row.id == OWNER:
                raise Conflict(f"{OWNER} is the last administrator and cannot be removed")
            person = _person(session, row)
            for key in session.exec(select(ApiKey).where(ApiKey.user_id == row.id)):
                key.revoked_at = key.revoked_at or now()
                session.add(key)
            session.execute(delete(SignIn).where(col(SignIn.user_id) == row.id))
            session.delete(row)
            return person

        return self._store.write(change)

    def set_password(self, caller: Caller, name: str, password: str) -> Person:
        """Give anybody a new password; ends all of their sign-ins."""
        caller.need("admin")
        return self._replace_password(name, password, keep=caller.sign_in)

    def change_password(self, caller: Caller, current: str, password: str) -> Person:
        """Change one's own password; ends one's other sign-ins. The current one is asked for."""
        name, stored = self._password_of(caller)
        if stored is not None and not is_right(current, stored):
            raise AccessDenied("this is not your current password")
        return self._replace_password(name, password, keep=caller.sign_in)

    def me(self, caller: Caller) -> Person:
        """The signed-in person."""
        with self._store.read() as session:
            row = session.get(User, caller.user_id) if caller.user_id else None
            if row is None:
                raise AccessDenied("sign in as a person first; a key stands for nobody")
            return _person(session, row)

    def password_is_right(self, name: str, password: str) -> str | None:
        """Whom the password lets in: the person's id; takes as long for a name nobody has."""
        with self._store.read() as session:
            row = session.exec(select(User).where(User.name == name.strip().lower())).first()
        right = is_right(password, row.password_hash if row else None)
        return row.id if row is not None and right else None

    def has_password_admin(self) -> bool:
        """Whether an administrator can sign in by password, as a server for others needs."""
        query = select(User).where(User.role == "admin", col(User.password_hash).is_not(None))
        with self._store.read() as session:
            return session.exec(query).first() is not None

    def any_password(self) -> bool:
        """Whether anybody at all can sign in by password."""
        query = select(User.id).where(col(User.password_hash).is_not(None))
        with self._store.read() as session:
            return session.exec(query).first() is not None

    def _password_of(self, caller: Caller) -> tuple[str, str | None]:
        person = self.me(caller)
        with self._store.read() as session:
            return person.name, _named(session, person.name).password_hash

    def _replace_password(self, name: str, password: str, keep: str | None) -> Person:
        check_password(password, name)
        hashed = hash_password(password)

        def change(session: Session) -> Person:
            row = _named(session, name)
            row.password_hash = hashed
            session.add(row)
            end_sign_ins(session, row.id, keep=keep)
            return _person(session, row)

        return self._store.write(change)


def end_sign_ins(session: Session, user_id: str, keep: str | None = None) -> None:
    """End a person's sessions and links, but the session `keep`."""
    alive = select(SignIn).where(SignIn.user_id == user_id, col(SignIn.ended_at).is_(None))
    for row in session.exec(alive.where(SignIn.token_hash != (keep or ""))):
        row.ended_at = now()
        session.add(row)


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise InvalidRequest(f"role: {role!r} is not one of {', '.join(ROLES)}")


def _named(session: Session, name: str) -> User:
    row = session.exec(select(User).where(User.name == name)).first()
    if row is None:
        raise NotFound(f"there is nobody called {name}; see the list of people")
    return row


def _person(session: Session, row: User) -> Person:
    query = select(ApiKey.name).where(
        ApiKey.made_by == row.name,
        col(ApiKey.user_id).is_(None),
        col(ApiKey.revoked_at).is_(None),
        ApiKey.id != OWNER,
    )
    return Person(
        name=row.name,
        role=row.role,
        has_password=row.password_hash is not None,
        created_at=row.created_at,
        signed_in_at=row.signed_in_at,
        keys=sorted(session.exec(query)),
    )
