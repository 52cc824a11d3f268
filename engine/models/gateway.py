"""The gateway: the only way to a model that costs money; reserve, call, settle, each call once."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from data import crash, ledger
from data.model_keys import KeyMissing, read_key
from data.store import Store
from engine.disk import write_surely
from engine.errors import (
    CapReached,
    GatewayFailed,
    Interrupted,
    ModelUnavailable,
    PriceBoundViolated,
)
from engine.facts import RunFacts, Tools
from engine.models import calls, prices, remote, simulated
from engine.models.calls import Answered, CallsInFlight, Opened, Order, Slot
from engine.models.remote import RemoteFailed, RemoteModel
from engine.types import Answer, Ask, Message, Stop

RETRIES = 2
RETRY_SECONDS = 0.5  # about, and twice as long before the next one
LEAST_TOKENS = 64  # near a cap an answer may be cut to this, unless the ask says otherwise


@dataclass(kw_only=True, slots=True, frozen=True)
class CallPlace:
    """Where in a run a call belongs."""

    run: RunFacts
    round: int
    step: str
    role: str  # operator | teacher | student | auditor

    @property
    def slot(self) -> Slot:
        """The place as the journal knows it, with how many requests its round may make."""
        return Slot(
            project_id=self.run.project_id,
            accounts=self.run.accounts,
            role=self.role,
            run=self.run.id,
            round=self.round,
            step=self.step,
            round_cap=_round_cap(self),
        )


class Gateway:
    """Calls priced models and charges every attempt to the accounts of run and project."""

    def __init__(
        self,
        store: Store,
        pace_seconds: float,
        stopping: Stop = lambda: False,
        retry_seconds: float = RETRY_SECONDS,
        read_seconds: float = remote.READ_SECONDS,
        retries: int = RETRIES,
    ) -> None:
        self._store = store
        self._pace = pace_seconds
        self._stopping = stopping
        self._retry_seconds, self._read_seconds = retry_seconds, read_seconds
        self._retries = retries
        self._waiting = threading.Lock()  # whoever waits for money, the first alone asks again
        self._settled = threading.Condition()
        self._open = 0  # attempts from before they are reserved until they are settled
        self._random = Random()

    def ask(
        self,
        tools: Tools,
        model: str,
        role: str,
        key: str,
        messages: list[Message],
        max_tokens: int,
        worked: str | None = None,
        json_schema: dict[str, Any] | None = None,
        least_tokens: int = LEAST_TOKENS,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> Answer:
        """One answer of a named model inside a phase; GatewayFailed or CapReached otherwise.

        `key` names the call inside its phase: asked again with the same key and words, the recorded
        answer comes back. RequestsUsedUp, a GatewayFailed, when the round may ask no more.
        """
        assert isinstance(tools.facts, RunFacts), "only runs ask models behind the gateway"
        place = CallPlace(run=tools.facts, round=tools.round, step=tools.step, role=role)
        told = worked if model in simulated.MODELS else None
        ask = Ask(
            key=key,
            messages=messages,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            worked=told,
        )
        return self.call(place.slot, model, ask, json_schema=json_schema, least_tokens=least_tokens)

    def call(
        self,
        slot: Slot,
        model: str,
        ask: Ask,
        *,
        json_schema: dict[str, Any] | None = None,
        least_tokens: int = LEAST_TOKENS,
    ) -> Answer:
        """The recorded answer of this call, or new attempts: each reserved, sent, settled.

        An attempt whose failure may pass is followed by two more at most. Interrupted, with nothing
        sent, once the server is stopping.
        """
        least = min(least_tokens, ask.max_tokens)
        order = Order(ask=ask, least_tokens=least, json_schema=json_schema)
        with self._store.read() as session:
            found = calls.recorded(session, slot, order)
        if found is not None:
            return found
        for attempt in range(self._retries + 1):
            self._check_stopping()
            crash.point("before_reserve")
            opened = self._open_attempt(slot, model, order)
            crash.point("after_reserve")
            try:
                return self._answer(opened)
            except RemoteFailed as failed:
                self._fail(opened, failed)
                if not failed.retry or attempt == self._retries:
                    raise GatewayFailed(str(failed)) from None
            crash.point("before_retry")
            self._pause(self._retry_seconds * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _open_attempt(self, slot: Slot, model: str, order: Order) -> Opened:
        """Open an attempt; where money is short, wait for what calls in flight give back."""
        change = partial(calls.open_call, slot=slot, name=model, order=order)
        try:
            try:
                return self._write_open(change)
            except CallsInFlight:
                return self._open_in_turn(change)
        except ledger.CapExceeded as error:
            raise CapReached(str(error)) from None

    def _open_in_turn(self, change: Callable[..., Opened]) -> Opened:
        with self._waiting:
            while True:
                self._check_stopping()
                try:
                    return self._write_open(change)
                except CallsInFlight:
                    with self._settled:
                        self._settled.wait(0.2)

    def _write_open(self, change: Callable[..., Opened]) -> Opened:
        """Open it, and wait for nobody when no other attempt is there to give money back.

        What is reserved then belongs to a call whose end could not be written.
        """
        with self._settled:
            self._open += 1
        try:
            return self._store.write(lambda s: change(s, may_wait=self._open > 1))
        except BaseException:
            with self._settled:
                self._open -= 1
            raise

    def _answer(self, opened: Opened) -> Answer:
        """Send an attempt and settle it; RemoteFailed is the caller's to settle."""
        try:
            answered = self._send(opened)
        except (KeyMissing, GatewayFailed) as error:  # nothing was sent
            self._settle(partial(calls.release_call, opened=opened, error=str(error)))
            mend = isinstance(error, KeyMissing)
            raise (ModelUnavailable if mend else GatewayFailed)(str(error)) from None
        except RemoteFailed:
            raise
        except Exception as error:  # whatever it was, the attempt has to be settled
            said = f"{opened.model.name}: {type(error).__name__}: {error}"
            self._settle(partial(calls.charge_whole, opened=opened, error=said))
            raise GatewayFailed(said) from error
        crash.point("after_send")
        violation = self._settle(partial(calls.settle_call, opened=opened, answered=answered))
        crash.point("after_settle")
        if violation is not None:
            raise PriceBoundViolated(violation)
        used = answered.usage
        return Answer(
            key=opened.ask.key,
            text=answered.text,
            tokens_in=used.tokens_in if used else 0,
            tokens_out=used.tokens_out if used else 0,
            finish=answered.finish,
        )

    def _send(self, opened: Opened) -> Answered:
        model, ask = opened.model, opened.ask
        if model.simulated:
            return _as_answered(simulated.answer(model.name, ask, self._pace))
        if model.base_url is None:
            raise GatewayFailed(f"model {model.name} has no address: add it again")
        near = RemoteModel(
            name=model.name,
            base_url=model.base_url,
            api_key=read_key(model),
            local=model.local,
            read_seconds=self._read_seconds,
        )
        reply = remote.complete(
            near, ask.messages, ask.max_tokens, ask.temperature, ask.seed, opened.json_schema
        )
        return Answered(text=reply.text, finish=reply.finish, usage=reply.usage, raw=reply.raw)

    def _fail(self, opened: Opened, failed: RemoteFailed) -> None:
        """Give the reservation back where that is known to be right, else charge it whole."""
        error = str(failed)
        if failed.free:
            self._settle(partial(calls.release_call, opened=opened, error=error))
            return
        violation = self._settle(
            partial(calls.charge_whole, opened=opened, error=error, overran=failed.overran)
        )
        if violation is not None:
            raise PriceBoundViolated(violation)

    def _settle(self, change: Callable[..., Any]) -> Any:
        try:
            return write_surely(self._store, lambda session: change(session))
        finally:
            with self._settled:
                self._open -= 1
                self._settled.notify_all()

    def _check_stopping(self) -> None:
        if self._stopping():
            raise Interrupted("the server stops: no new call is made")

    def _pause(self, seconds: float) -> None:
        """Wait about as long, so that many do not come back at once; Interrupted at a stop."""
        until = time.monotonic() + seconds * self._random.uniform(0.5, 1.0)
        while (left := until - time.monotonic()) > 0:
            self._check_stopping()
            time.sleep(min(left, 0.05))


def _as_answered(answer: Answer) -> Answered:
    used = prices.Usage(tokens_in=answer.tokens_in, cached=0, tokens_out=answer.tokens_out)
    return Answered(text=answer.text or "", finish=answer.finish, usage=used, raw={})


def _round_cap(place: CallPlace) -> int | None:
    """How many requests a round may make for a role, up to this phase; None in `prepare`.

    Of the student's, what development and blind evaluation need is kept for them.
    """
    limits = place.run.config.limits
    if place.round == 0:
        return None
    if place.role != "student":
        return limits.request_cap
    kept = {"blind": 0, "develop": limits.blind_n}.get(place.step, limits.dev_n + limits.blind_n)
    return max(0, limits.student_request_cap - kept)
