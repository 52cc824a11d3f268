"""What must be true of a run's rows whatever happened to it: its money, its events."""

from sqlmodel import Session, col, select

from data.tables import Account, Event, LedgerEntry, ModelCall, Reservation, Steer


def check_money(session: Session, name: str, cap: float) -> int:
    """Micro-dollars that a run has spent: what its rows sum up to, within its cap."""
    account = session.get(Account, f"run:{name}")
    if account is None:
        return 0
    entries = session.exec(select(LedgerEntry).where(LedgerEntry.account == account.id)).all()
    open_ = session.exec(select(Reservation).where(Reservation.state == "open")).all()
    for category in ("model", "device"):
        settled = getattr(account, f"{category}_settled")
        reserved = getattr(account, f"{category}_reserved")
        rows = [one.amount for one in entries if one.category == category and one.kind != "reserve"]
        assert settled == sum(rows), f"{category}: {settled} is not {sum(rows)}"
        held = [one.amount for one in open_ if one.run == name and one.kind == category]
        assert reserved == sum(held), f"{category}: {reserved} reserved, {sum(held)} open"
    calls = session.exec(select(ModelCall).where(ModelCall.run == name)).all()
    assert account.model_settled == sum(one.cost or 0 for one in calls)
    assert account.model_settled + account.model_reserved <= round(cap * 1_000_000)
    return account.model_settled + account.device_settled


def check_nothing_open(session: Session) -> None:
    """At a server's start, what the last one had reserved is settled."""
    query = select(Reservation).where(Reservation.state == "open")
    assert not session.exec(query).all(), "a reservation outlives its server"


def check_events(session: Session, name: str, state: str) -> None:
    """Numbered without gaps, the last one tells the end, each steer's fate is told once."""
    query = select(Event).where(Event.run == name).order_by(col(Event.id))
    events = session.exec(query).all()
    assert [one.seq for one in events] == list(range(1, len(events) + 1))
    assert events[-1].text.startswith(f"run {state}")
    told = [one.text.split()[0] for one in events if one.kind == "steer"]
    assert sorted(told) == sorted(session.exec(select(Steer.id).where(Steer.run == name)))
