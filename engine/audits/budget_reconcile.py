"""Budget reconciliation: the ledger, its reservations and the calls tell the same story."""

from typing import Any

from sqlmodel import Session, select

from data.ledger import dollars
from data.tables import Account, LedgerEntry, ModelCall, Reservation
from engine.audits.finding import Finding, judged
from engine.facts import Library, RunFacts

NAME = "budget_reconcile"
AFTER = ("blind",)


def examine(
    session: Session, run: RunFacts, library: Library, round_: int, past: dict[str, Any]
) -> Finding:
    """Add the run's spend up three ways; every figure must agree to the micro-dollar."""
    account = session.get_one(Account, f"run:{run.id}")
    query = select(LedgerEntry).where(LedgerEntry.account == account.id)
    entries = session.exec(query).all()
    reservations = session.exec(select(Reservation).where(Reservation.run == run.id)).all()
    calls = session.exec(select(ModelCall).where(ModelCall.run == run.id)).all()
    problems = [
        *_totals(account, list(entries)),
        *_calls(account, list(reservations), list(calls)),
        *_caps(account),
    ]
    spent = account.model_settled + account.device_settled
    return judged(problems, f"{account.requests} requests, {dollars(spent)} = ledger")


def _totals(account: Account, entries: list[LedgerEntry]) -> list[tuple[str, str]]:
    """Running totals of the account against the sum of its entries."""
    problems = []
    for category, held in (
        ("model", account.model_settled),
        ("device", account.device_settled),
    ):
        closing = [one for one in entries if one.category == category and one.kind != "reserve"]
        total = sum(one.amount for one in closing)
        if total != held:
            text = f"{category}: account {dollars(held)}, entries {dollars(total)}"
            problems.append(("LEDGER_MISMATCH", text))
    if any(one.amount < 0 for one in entries):
        problems.append(("LEDGER_MISMATCH", "an entry is negative"))
    return problems


def _calls(
    account: Account, reservations: list[Reservation], calls: list[ModelCall]
) -> list[tuple[str, str]]:
    """Each call has one reservation, each model reservation one call, and the costs agree."""
    problems = []
    paid = {one.id: one for one in reservations if one.kind == "model"}
    called = [one.reservation for one in calls if one.reservation is not None]
    if len(called) != len(set(called)):
        problems.append(("DUPLICATE_CHARGE", "two calls share one reservation"))
    if set(called) != set(paid):
        problems.append(("UNMETERED_CALL", f"{len(calls)} calls, {len(paid)} reservations"))
    charged = sum(one.actual or 0 for one in paid.values())
    if charged != account.model_settled:
        text = f"reservations {dollars(charged)}, account {dollars(account.model_settled)}"
        problems.append(("LEDGER_MISMATCH", text))
    if any(one.state == "open" for one in paid.values()):
        problems.append(("LEDGER_MISMATCH", "a reservation was never settled"))
    return problems


def _caps(account: Account) -> list[tuple[str, str]]:
    total = account.model_settled + account.device_settled
    passed = [
        account.model_cap is not None and account.model_settled > account.model_cap,
        account.total_cap is not None and total > account.total_cap,
        account.requests_cap is not None and account.requests > account.requests_cap,
    ]
    return [("CAP_EXCEEDED", "a cap was passed")] if any(passed) else []
