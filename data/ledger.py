"""Money and device time: reserve the worst case, act, settle once. Integer micro-dollars throughout.

Every function runs inside a write transaction of the store. One reservation may charge several
accounts (run, key, project); each account keeps its totals and its caps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from data.tables import Account, LedgerEntry, Reservation, now

MICRO = 1_000_000
LOW_SHARE = 10  # below a tenth of a cap, calls go one at a time
CAPS = {  # a run's limit -> the account's column that holds it
    "max_model_cost_usd": "model_cap",
    "max_cost_usd": "total_cap",
    "max_model_requests": "requests_cap",
}


class CapExceeded(Exception):
    """A reservation would pass a cap; the text names the cap, what is used and what was asked."""


class AlreadySettled(Exception):
    """A reservation is settled once; this one is not open any more."""


@dataclass(kw_only=True, slots=True, frozen=True)
class Room:
    """What the caps of some accounts leave for a model call, in micro-dollars; None without a cap.

    `low` when less than a tenth of a cap is unspent, `in_flight` when calls hold reservations that
    may come back.
    """

    left: int | None
    low: bool
    in_flight: bool


def open_account(
    session: Session, account: str, project_id: str, limits: Mapping[str, float] | None = None
) -> Account:
    """The account of that id, made with the caps that `limits` names when it is not there yet."""
    found = session.get(Account, account)
    if found is None:
        found = Account(id=account, project_id=project_id)
        for name, column in CAPS.items():
            limit = (limits or {}).get(name)
            if limit is not None:
                setattr(found, column, cap_value(name, limit))
        session.add(found)
        session.flush()
    return found


def cap_value(name: str, limit: float) -> int:
    """A run's limit in the account's unit: micro-dollars, or a count of requests."""
    return int(limit) if name == "max_model_requests" else round(limit * MICRO)


def room_for_call(session: Session, accounts: Sequence[str]) -> Room:
    """How much one more call may reserve, over all caps of all accounts."""
    found = [one for account in accounts for one in _limits_of_call(_account(session, account))]
    return Room(
        left=min((cap - used for _, cap, used, _, _ in found), default=None),
        low=any((cap - settled) * LOW_SHARE < cap for _, cap, _, settled, _ in found),
        in_flight=any(row.model_reserved > 0 for _, _, _, _, row in found),
    )


def _limits_of_call(row: Account) -> Iterator[tuple[str, int, int, int, Account]]:
    """Each money cap that a model call has to keep: name, cap, used, settled."""
    if row.model_cap is not None:
        used = row.model_settled + row.model_reserved
        yield "model cap", row.model_cap, used, row.model_settled, row
    if row.total_cap is not None:
        settled = row.model_settled + row.device_settled
        used = settled + row.model_reserved + row.device_reserved
        yield "total cap", row.total_cap, used, settled, row


def set_caps(session: Session, account: str, limits: Mapping[str, float | None]) -> Account:
    """Give an account the named caps, None for none; what was spent stays spent."""
    row = _account(session, account)
    for name, limit in limits.items():
        setattr(row, CAPS[name], None if limit is None else cap_value(name, limit))
    session.add(row)
    return row


def reserve(
    session: Session,
    accounts: Sequence[str],
    kind: str,
    amount: int,
    *,
    project_id: str,
    run: str | None = None,
    requests: int = 0,
) -> int:
    """Reserve `amount` on every account, or raise CapExceeded and change nothing.

    Holds afterwards on each account: settled + reserved <= cap, and requests <= requests cap.
    Returns the reservation's id.
    """
    rows = [_account(session, account) for account in accounts]
    for row in rows:
        _check_caps(row, kind, amount, requests)
    reservation = Reservation(
        project_id=project_id, run=run, kind=kind, accounts=list(accounts), amount=amount
    )
    session.add(reservation)
    session.flush()
    assert reservation.id is not None
    for row in rows:
        _add(row, kind, reserved=amount)
        row.requests += requests
        _enter(session, row, reservation.id, "reserve", kind, amount)
    return reservation.id


def settle(session: Session, reservation: int, actual: int) -> None:
    """Replace a reservation by what it cost; AlreadySettled when it is not open."""
    _close(session, reservation, "settled", actual, None)


def settle_uncertain(session: Session, reservation: int, note: str) -> None:
    """Charge the whole reservation, since nobody can tell what it cost."""
    _close(session, reservation, "uncertain", None, note)


def release(session: Session, reservation: int, note: str) -> None:
    """Give a reservation back: nothing was sent, or the refusal is known to be free."""
    _close(session, reservation, "released", 0, note)


def add_device_time(session: Session, accounts: Sequence[str], milliseconds: int) -> None:
    """Meter device time on every account, priced or not."""
    for account in accounts:
        row = _account(session, account)
        row.device_ms += milliseconds
        session.add(row)


def _close(
    session: Session, reservation_id: int, state: str, actual: int | None, note: str | None
) -> None:
    reservation = session.get_one(Reservation, reservation_id)
    if reservation.state != "open":
        raise AlreadySettled(f"reservation {reservation_id} is {reservation.state} already")
    cost = reservation.amount if actual is None else actual
    reservation.state, reservation.actual = state, cost
    reservation.note, reservation.settled_at = note, now()
    session.add(reservation)
    for account in reservation.accounts:
        row = _account(session, account)
        _add(row, reservation.kind, reserved=-reservation.amount, settled=cost)
        if state == "uncertain" and reservation.kind == "model":
            row.model_uncertain += cost
        word = {"settled": "settle", "uncertain": "uncertain", "released": "release"}[state]
        _enter(session, row, reservation_id, word, reservation.kind, cost)


def _check_caps(row: Account, kind: str, amount: int, requests: int) -> None:
    for cap, limit, used, _, _ in _limits_of_call(row):
        if used + amount > limit and (kind == "model" or cap == "total cap"):
            raise CapExceeded(_cap_text(cap, limit, used, amount, row.id))
    over = row.requests_cap is not None and row.requests + requests > row.requests_cap
    if requests and over:
        raise CapExceeded(
            f"request cap {row.requests_cap} reached at {row.requests} requests ({_name(row.id)})"
        )


def _cap_text(cap: str, limit: int, used: int, asked: int, account: str) -> str:
    return (
        f"{cap} {dollars(limit)} reached at {dollars(used)} + {dollars(asked)} reserve,"
        f" {dollars(max(0, limit - used))} left ({_name(account)})"
    )


def dollars(micro: int) -> str:
    """Micro-dollars for people: two decimals, more where two would hide the amount."""
    value = micro / MICRO
    return f"${value:.2f}" if micro % 10_000 == 0 else f"${value:.6f}".rstrip("0")


def _name(account: str) -> str:
    return account.replace(":", " ", 1)


def _account(session: Session, account: str) -> Account:
    return session.get_one(Account, account)


def _add(row: Account, kind: str, *, reserved: int = 0, settled: int = 0) -> None:
    if kind == "model":
        row.model_reserved += reserved
        row.model_settled += settled
    else:
        row.device_reserved += reserved
        row.device_settled += settled


def _enter(
    session: Session, row: Account, reservation: int, word: str, category: str, amount: int
) -> None:
    session.add(row)
    entry = LedgerEntry(
        account=row.id, reservation=reservation, kind=word, category=category, amount=amount
    )
    session.add(entry)
