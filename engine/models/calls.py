"""The journal of paid calls: each attempt opened with its reservation, and closed once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from data import crash, ledger
from data.tables import Account, GatewayModel, ModelCall, Reservation, now
from engine.errors import GatewayFailed, PriceBoundViolated, RequestsUsedUp
from engine.identity import content_hash
from engine.models import prices
from engine.models.prices import Usage
from engine.types import Answer, Ask

STRONG = ("operator", "teacher", "auditor")  # these share a round's request cap
STUDENT = ("student",)


class CallsInFlight(Exception):
    """Money is short and other calls hold some of it: this one waits for them."""


@dataclass(kw_only=True, slots=True, frozen=True)
class Slot:
    """Where a call is journaled and which accounts pay; with its key it names the call for ever.

    `round_cap` is how many attempts this round may make for the roles that share it with `role`.
    """

    project_id: str
    accounts: list[str]
    role: str  # operator | teacher | student | auditor
    run: str | None = None
    round: int = 0
    step: str = "test"
    round_cap: int | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class Order:
    """What one call asks for; `least_tokens` is the shortest answer worth having near a cap."""

    ask: Ask
    least_tokens: int
    json_schema: dict[str, Any] | None = None

    @property
    def key(self) -> str:
        """Names a call inside its phase: other words, seed or schema make it another call."""
        said: list[Any] = [self.ask.messages, self.ask.seed]
        if self.json_schema is not None:
            said.append(self.json_schema)
        return f"{self.ask.key}@{content_hash(said)}"


@dataclass(kw_only=True, slots=True, frozen=True)
class Opened:
    """One attempt that is reserved and not settled; `model` as it was when it was opened."""

    id: int
    reservation: int
    reserved: int
    ask: Ask  # with as many tokens as can be paid for
    model: GatewayModel
    price: dict[str, Any]
    json_schema: dict[str, Any] | None


@dataclass(kw_only=True, slots=True, frozen=True)
class Answered:
    """An answer as it came; `usage` None when nobody said what it cost, `raw` the provider's own."""

    text: str
    finish: str
    usage: Usage | None
    raw: Mapping[str, Any]


def open_call(
    session: Session, slot: Slot, name: str, order: Order, *, may_wait: bool = True
) -> Opened:
    """Reserve and record an attempt in one transaction, before anything is sent.

    Near a cap it is given fewer tokens, down to `least_tokens`. CapExceeded when not even those can
    be paid, CallsInFlight when it should and `may_wait`, RequestsUsedUp, PriceBoundViolated,
    GatewayFailed when it must not be made at all.
    """
    model = _callable_model(session, name)
    _check_round(session, slot)
    price = prices.price_of(model)
    ask = _within_means(session, slot, price, order, may_wait)
    amount = prices.worst_case(price, ask.messages, ask.max_tokens, order.json_schema)
    reservation = ledger.reserve(
        session,
        slot.accounts,
        "model",
        amount,
        project_id=slot.project_id,
        run=slot.run,
        requests=1,
    )
    call = _sent(session, slot, order.key, model)
    call.reservation, call.price = reservation, price
    call.request_hash, call.max_tokens = content_hash(ask.messages), ask.max_tokens
    session.add(call)
    session.flush()
    assert call.id is not None
    crash.point("in_reserve")
    return Opened(
        id=call.id,
        reservation=reservation,
        reserved=amount,
        ask=ask,
        model=model,
        price=price,
        json_schema=order.json_schema,
    )


def settle_call(session: Session, opened: Opened, answered: Answered) -> str | None:
    """Write the answer with what it cost, at the price of when it was reserved.

    Without a usage record the whole reservation is charged. A cost above it is charged as well, and
    blocks the model: the text of that comes back.
    """
    call = session.get_one(ModelCall, opened.id)
    call.status, call.text, call.ended_at = "answered", answered.text, now()
    violation = None
    if answered.usage is None:
        ledger.settle_uncertain(session, opened.reservation, "the provider did not say its usage")
        call.cost, call.uncertain = opened.reserved, True
    else:
        call.cost = prices.actual(opened.price, answered.usage)
        ledger.settle(session, opened.reservation, call.cost)
        if call.cost > opened.reserved:
            violation = _block(session, opened, _too_much(opened, answered.usage, call.cost))
    call.usage = _usage(answered)
    session.add(call)
    crash.point("in_settle")
    return violation


def charge_whole(session: Session, opened: Opened, error: str, overran: bool = False) -> str | None:
    """End an attempt without an answer: nobody can tell its cost, so it is charged whole.

    A provider that `overran` what it was allowed is blocked: the text of that comes back.
    """
    ledger.settle_uncertain(session, opened.reservation, error)
    _end(session, opened, "uncertain", error, opened.reserved)
    violation = _block(session, opened, error) if overran else None
    crash.point("in_charge")
    return violation


def release_call(session: Session, opened: Opened, error: str) -> None:
    """End an attempt that is known to have cost nothing."""
    ledger.release(session, opened.reservation, error)
    _end(session, opened, "failed", error, 0)
    crash.point("in_release")


def recorded(session: Session, slot: Slot, order: Order) -> Answer | None:
    """The answer that this very call was given before, if it was."""
    query = _calls(slot, order.key).where(ModelCall.status == "answered")
    call = session.exec(query).first()
    if call is None:
        return None
    return Answer(
        key=order.ask.key,
        text=call.text,
        tokens_in=call.usage.get("input_tokens", 0),
        tokens_out=call.usage.get("output_tokens", 0),
        finish=call.usage.get("finish", "stop"),
        error=call.error,
    )


def settle_leftovers(session: Session, run: str | None = None) -> None:
    """Calls that were sent and never settled, of one run or of all, are charged whole."""
    query = select(ModelCall).where(ModelCall.status == "sent")
    for call in session.exec(query if run is None else query.where(ModelCall.run == run)):
        call.status, call.ended_at, call.uncertain = "uncertain", now(), True
        call.error = "the answer was never recorded"
        if call.reservation is not None:
            call.cost = session.get_one(Reservation, call.reservation).amount
            ledger.settle_uncertain(session, call.reservation, call.error)
        session.add(call)


def _callable_model(session: Session, name: str) -> GatewayModel:
    model = session.get(GatewayModel, name)
    if model is None:
        raise GatewayFailed(f"no model {name} behind the gateway: python3 run.py model add {name}")
    if model.blocked is not None:
        raise PriceBoundViolated(model.blocked)
    return model


def _check_round(session: Session, slot: Slot) -> None:
    """RequestsUsedUp when the round has made as many attempts for such roles as it may."""
    if slot.round_cap is None:
        return
    account = session.get(Account, slot.accounts[0])
    if account is not None and account.requests < slot.round_cap:
        return  # a run that has asked less in all has asked less in this round
    group = STUDENT if slot.role in STUDENT else STRONG
    attempts = select(ModelCall.role).where(
        ModelCall.run == slot.run,
        ModelCall.round == slot.round,
        col(ModelCall.role).in_(group),
    )
    most = attempts.limit(slot.round_cap).subquery()  # no need to count further
    if session.exec(select(func.count()).select_from(most)).one() >= slot.round_cap:
        cap = "student_request_cap" if slot.role in STUDENT else "request_cap"
        raise RequestsUsedUp(
            f"{cap}: round {slot.round} has made the {slot.round_cap} requests that {slot.step}"
            " may have"
        )


def _within_means(
    session: Session, slot: Slot, price: Mapping[str, Any], order: Order, may_wait: bool
) -> Ask:
    """The ask with as many tokens as there is money for; CallsInFlight when that may grow."""
    ask, schema = order.ask, order.json_schema
    room = ledger.room_for_call(session, slot.accounts)
    if room.left is None:
        return ask
    is_short = prices.worst_case(price, ask.messages, ask.max_tokens, schema) > room.left
    if may_wait and room.in_flight and (room.low or is_short):
        raise CallsInFlight
    if not is_short:
        return ask
    tokens = prices.affordable(price, ask.messages, room.left, schema)
    return replace(ask, max_tokens=max(tokens, order.least_tokens))  # too many: the cap says so


def _calls(slot: Slot, key: str) -> Any:
    return select(ModelCall).where(
        ModelCall.run == slot.run,
        ModelCall.round == slot.round,
        ModelCall.step == slot.step,
        ModelCall.call_key == key,
    )


def _sent(session: Session, slot: Slot, key: str, model: GatewayModel) -> ModelCall:
    """The row of the next attempt at a call."""
    return ModelCall(
        project_id=slot.project_id,
        run=slot.run,
        round=slot.round,
        step=slot.step,
        call_key=key,
        attempt=_attempts(session, slot, key) + 1,
        role=slot.role,
        model=model.name,
        simulated=model.simulated,
        request_hash="",
    )


def _attempts(session: Session, slot: Slot, key: str) -> int:
    last = _calls(slot, key).with_only_columns(func.max(ModelCall.attempt))
    return session.exec(last).one() or 0


def _end(session: Session, opened: Opened, status: str, error: str, cost: int) -> None:
    call = session.get_one(ModelCall, opened.id)
    call.status, call.error, call.cost, call.ended_at = status, error, cost, now()
    call.uncertain = status == "uncertain"
    session.add(call)


def _block(session: Session, opened: Opened, why: str) -> str:
    """Refuse the model from here on, for every run, until an administrator confirms it."""
    name = opened.model.name
    text = (
        f"PRICE_BOUND_VIOLATED: {why}; nobody calls it until `python3 run.py model confirm {name}`"
    )
    model = session.get(GatewayModel, name)
    if model is not None:
        model.blocked = text
        session.add(model)
    return text


def _too_much(opened: Opened, usage: Usage, cost: int) -> str:
    return (
        f"model {opened.model.name} says {usage.tokens_in} + {usage.tokens_out} tokens"
        f" ({ledger.dollars(cost)}) where {opened.ask.max_tokens} of answer were allowed and"
        f" {ledger.dollars(opened.reserved)} was the most that could cost"
    )


def _usage(answered: Answered) -> dict[str, Any]:
    said = {"finish": answered.finish, "raw": dict(answered.raw)}
    if (used := answered.usage) is None:
        return said
    return said | {
        "input_tokens": used.tokens_in,
        "cached_tokens": used.cached,
        "output_tokens": used.tokens_out,
    }
