"""Makes guessing slow: who fails to sign in must wait, longer each time, also across restarts."""

import ipaddress
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import delete
from sqlmodel import Session, col

from app.tokens import from_now
from data.store import Store
from data.tables import FailedSignIn, now

FREE_FAILURES = 5
LONGEST_WAIT = 60.0  # seconds; longer, and a stranger could keep somebody out for good
FORGOTTEN_AFTER = timedelta(minutes=15)


class Throttle:
    """Counts tries by subject, `account(name)` or `address(host)`: 5 are free, then 1 s, 2 s, 4 s.

    A try is counted before its outcome is known, so that many at once gain nothing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, *subjects: str) -> float:
        """Count a try; or, as long as any of the subjects must wait, the seconds until it may."""
        return self._store.write(partial(_begin, subjects))

    def succeeded(self, account: str | None, address: str) -> None:
        """It was right: the account starts anew, the address takes back this one try.

        An address keeps its other failures, or one good account would help to guess the next.
        """
        self._store.write(partial(_succeeded, account, address))


def account(name: str) -> str:
    """The subject of an account, whether or not it exists."""
    return f"account:{name.strip().lower()[:64]}"


def address(host: str) -> str:
    """The subject of a network address; of IPv6 the /64 network, which one person may own."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return f"address:{host[:64]}"
    if found.version == 6:
        return f"address:{ipaddress.ip_network((found, 64), strict=False)}"
    return f"address:{found}"


def wait(failures: int, last_at: str) -> float:
    """Seconds from now until the next try after so many failures, the last of them at `last_at`."""
    if failures < FREE_FAILURES:
        return 0.0
    delay = min(LONGEST_WAIT, 2.0 ** (failures - FREE_FAILURES))
    passed = (datetime.now(UTC) - datetime.fromisoformat(last_at)).total_seconds()
    return min(delay, max(0.0, delay - passed))


def _begin(subjects: tuple[str, ...], session: Session) -> float:
    old = col(FailedSignIn.last_at) < from_now(-FORGOTTEN_AFTER)
    session.execute(delete(FailedSignIn).where(old))
    rows = [session.get(FailedSignIn, one) or FailedSignIn(subject=one) for one in subjects]
    seconds = max(wait(row.failures, row.last_at) for row in rows)
    if not seconds:
        for row in rows:
            row.failures, row.last_at = row.failures + 1, now()
            session.add(row)
    return seconds


def _succeeded(account_subject: str | None, address_subject: str, session: Session) -> None:
    row = session.get(FailedSignIn, account_subject) if account_subject else None
    if row is not None:
        session.delete(row)
    row = session.get(FailedSignIn, address_subject)
    if row is not None:
        row.failures -= 1
        session.add(row)
