"""Caps of a whole project, over all of its runs: seen and set by an administrator."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlmodel import Session, or_, select

from app.billing import usd
from app.caller import Caller
from app.caps import checked_caps
from app.errors import NotFound
from data import ledger
from data.store import Store
from data.tables import Account, Project


def commands(store: Store, owner: Caller) -> dict[str, Callable[..., Any]]:
    """The administration command; its result is plain JSON."""

    def cap(project: str | None = None, caps: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return store.write(lambda s: set_caps(s, owner, project, caps or {}))

    return {"project.cap": cap}


def set_caps(
    session: Session, caller: Caller, project: str | None, caps: Mapping[str, Any]
) -> dict[str, Any]:
    """Give a project the named caps, None for none, and say what it has and has spent.

    A cap below what is spent is allowed: then nothing more is. No run is stopped by it before its
    next paid call.
    """
    caller.need("admin")
    row = _find(session, project or caller.project_id)
    checked_caps({name: value for name, value in caps.items() if value is not None})
    account = ledger.open_account(session, f"project:{row.id}", row.id)
    account = ledger.set_caps(session, account.id, caps)
    return {
        "project": row.id,
        "spent_usd": usd(account.model_settled + account.device_settled),
        "caps": {name: _shown(account, name) for name in ledger.CAPS},
    }


def _find(session: Session, project: str) -> Project:
    row = session.exec(
        select(Project).where(or_(Project.id == project, Project.name == project))
    ).first()
    if row is None:
        raise NotFound(f"there is no project {project}")
    return row


def _shown(account: Account, name: str) -> str | int | None:
    value = getattr(account, ledger.CAPS[name])
    return value if value is None or name == "max_model_requests" else f"${usd(value)}"
