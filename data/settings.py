"""One setting as it is stored, for whoever acts by it."""

from sqlmodel import Session

from data.tables import Setting


def setting(session: Session, name: str, default: str = "") -> str:
    """The value of a setting; `default` where it is not set, or is empty."""
    row = session.get(Setting, name)
    return row.value if row is not None and row.value else default
