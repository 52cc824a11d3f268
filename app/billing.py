"""What a project has spent, in the words of a bill; amounts are strings of USD."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import case, func
from sqlmodel import Session, col, select

from app import paging
from app import project_shapes as shapes
from app.caller import Caller
from app.errors import InvalidField
from data.ledger import MICRO
from data.tables import Account, GatewayModel, Lease, LedgerEntry, ModelCall

GROUPS = ("day", "product", "endpoint", "sku")
SPENT = ("settle", "uncertain")


def account(session: Session, caller: Caller) -> shapes.BillingAccount:
    """The project's running totals beside its cap."""
    row = _account(session, caller)
    spent = row.model_settled + row.device_settled
    cap = row.total_cap
    return shapes.BillingAccount(
        balance_usd=None if cap is None else usd(cap - spent),
        spent_usd=usd(spent),
        simulated_usd=usd(_simulated(session, caller)),
        reserved_usd=usd(row.model_reserved + row.device_reserved),
        cap_usd=None if cap is None else usd(cap),
    )


def usage(
    session: Session, caller: Caller, start: str, end: str, group_by: str
) -> shapes.UsagePage:
    """Money and device time between two moments, by day, product, endpoint or sku."""
    if group_by not in GROUPS:
        raise InvalidField(f"group_by: {group_by!r} is not one of {', '.join(GROUPS)}")
    first, last = _moment("start", start), _moment("end", end)
    if group_by in ("endpoint", "sku"):
        return shapes.UsagePage(items=_by_model(session, caller, first, last, group_by))
    by_day = group_by == "day"
    money = _settled(session, caller, first, last, by_day)
    seconds = _device_seconds(session, caller, first, last, by_day)
    return shapes.UsagePage(
        items=[
            {
                group_by: key,
                "amount_usd": usd(money.get(key, (0, 0))[0]),
                "simulated_usd": usd(money.get(key, (0, 0))[1]),
                "gpu_seconds": seconds.get(key, 0.0),
            }
            for key in sorted({*money, *seconds})
        ]
    )


def ledger(
    session: Session, caller: Caller, limit: int, cursor: str | None = None
) -> shapes.LedgerPage:
    """Every change of the project's account, newest first."""
    query = select(LedgerEntry).where(LedgerEntry.account == _account_id(caller))
    rows, next_cursor = paging.by_number(session, query, LedgerEntry, limit, cursor)
    simulated = _simulated_of(session, [row.reservation for row in rows])
    items = [
        shapes.LedgerItem(
            entry_id=str(row.id),
            kind=f"{row.category}.{row.kind}",
            amount_usd=usd(row.amount),
            reference=None if row.reservation is None else f"reservation-{row.reservation}",
            occurred_at=row.at,
            simulated=row.reservation in simulated,
        )
        for row in rows
    ]
    return shapes.LedgerPage(items=items, next_cursor=next_cursor)


def prices(session: Session, caller: Caller) -> shapes.PricePage:
    """What the models behind the gateway cost."""
    rows = session.exec(select(GatewayModel).order_by(col(GatewayModel.name)))
    items = [
        shapes.Price(
            name=row.name,
            input_usd=usd(row.input_micro_per_mtok),
            output_usd=usd(row.output_micro_per_mtok),
            cached_usd=_usd_or_none(row.cached_micro_per_mtok),
            simulated=row.simulated,
        )
        for row in rows
    ]
    return shapes.PricePage(items=items)


def usd(micro: int) -> str:
    """Micro-dollars as an exact decimal string with two places at least."""
    sign, whole, rest = "-" if micro < 0 else "", abs(micro) // MICRO, abs(micro) % MICRO
    places = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{places}"


def _usd_or_none(micro: int | None) -> str | None:
    return None if micro is None else usd(micro)


def _settled(
    session: Session, caller: Caller, first: str, last: str, by_day: bool
) -> dict[str, tuple[int, int]]:
    """What was charged, and how much of it by simulated models, by day or by product."""
    key: Any = func.substr(LedgerEntry.at, 1, 10) if by_day else LedgerEntry.category
    of_simulated = func.sum(case((col(ModelCall.simulated), LedgerEntry.amount), else_=0))
    query: Any = select(key, func.sum(LedgerEntry.amount), of_simulated)
    joined = query.outerjoin(ModelCall, col(ModelCall.reservation) == LedgerEntry.reservation)
    of_project = joined.where(
        LedgerEntry.account == _account_id(caller),
        col(LedgerEntry.kind).in_(SPENT),
        LedgerEntry.at >= first,
        LedgerEntry.at < last,
    )
    return {word: (all_, some) for word, all_, some in session.exec(of_project.group_by(key))}


def _simulated(session: Session, caller: Caller) -> int:
    """Micro-dollars that went to simulated models, so to nobody."""
    query = select(func.sum(ModelCall.cost))
    mine = query.where(ModelCall.project_id == caller.project_id, ModelCall.simulated)
    return session.exec(mine).one() or 0


def _simulated_of(session: Session, reservations: list[int | None]) -> set[int | None]:
    """Those reservations that are for a call to a simulated model."""
    query = select(ModelCall.reservation).where(
        col(ModelCall.reservation).in_(reservations), ModelCall.simulated
    )
    return set(session.exec(query))


def _device_seconds(
    session: Session, caller: Caller, first: str, last: str, by_day: bool
) -> dict[str, float]:
    """Device time by the day on which its lease began."""
    day = func.substr(Lease.started_at, 1, 10)
    query = select(day, func.sum(Lease.active_ms)).where(
        Lease.project_id == caller.project_id, Lease.started_at >= first, Lease.started_at < last
    )
    found = {key: ms / 1000 for key, ms in session.exec(query.group_by(day)).all()}
    return found if by_day else ({"device": sum(found.values())} if found else {})


def _by_model(
    session: Session, caller: Caller, first: str, last: str, word: str
) -> list[dict[str, str | float]]:
    charged = func.coalesce(func.sum(ModelCall.cost), 0)
    query: Any = select(ModelCall.model, charged, func.max(ModelCall.simulated))
    of_project = query.where(
        ModelCall.project_id == caller.project_id,
        ModelCall.started_at >= first,
        ModelCall.started_at < last,
    )
    found = session.exec(of_project.group_by(ModelCall.model).order_by(ModelCall.model)).all()
    return [
        {
            word: name,
            "amount_usd": usd(cost),
            "simulated_usd": usd(cost if simulated else 0),
            "gpu_seconds": 0.0,
        }
        for name, cost, simulated in found
    ]


def _moment(name: str, text: str) -> str:
    """A moment written like every time in the tables."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError(text)
        utc = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidField(f"{name}: give a time such as 2026-01-31T00:00:00Z") from None
    return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _account(session: Session, caller: Caller) -> Account:
    row = session.get(Account, _account_id(caller))
    return row or Account(id=_account_id(caller), project_id=caller.project_id)


def _account_id(caller: Caller) -> str:
    return f"project:{caller.project_id}"
