"""The gateway: the only way to a model that costs money; reserve, call, settle, each call once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlmodel import Session, col, select

from data import crash, ledger
from data.store import Store
from data.tables import GatewayModel, ModelCall, now
from engine.disk import write_surely
from engine.errors import CapReached, GatewayFailed, Interrupted
from engine.facts import RunFacts, Tools
from engine.identity import content_hash
from engine.models import simulated
from engine.types import Answer, Ask, Message, ModelRef, Stop, TrainJob, TrainProgress, TrainResult

MESSAGE_TOKENS = 16  # a bound on what a message costs beside its bytes
MTOK = 1_000_000
AT_ONCE = 8  # calls in flight; their reservations share commits
BATCH = 24


@dataclass(kw_only=True, slots=True, frozen=True)
class CallPlace:
    """Where in a run a call belongs; with its key it names the call for ever."""

    run: RunFacts
    round: int
    step: str
    role: str  # operator | teacher | student | auditor


class Gateway:
    """Calls priced models and charges every attempt to the run's accounts."""

    def __init__(self, store: Store, pace_seconds: float, stopping: Stop = lambda: False) -> None:
        self._store = store
        self._pace = pace_seconds
        self._stopping = stopping

    def ask(
        self,
        tools: Tools,
        model: str,
        role: str,
        key: str,
        messages: list[Message],
        max_tokens: int,
        worked: str | None = None,
    ) -> Answer:
        """One answer of a named model inside a phase; GatewayFailed or CapReached otherwise."""
        place = CallPlace(run=tools.facts, round=tools.round, step=tools.step, role=role)
        told = worked if model in simulated.MODELS else None
        ask = Ask(key=key, messages=messages, max_tokens=max_tokens, worked=told)
        return self.call(place, model, ask)

    def call(self, place: CallPlace, model: str, ask: Ask) -> Answer:
        """The recorded answer of this call, or a new attempt: reserved, sent, settled.

        Interrupted, with nothing sent, once the server is stopping.
        """
        with self._store.read() as session:
            recorded = _recorded(session, place, ask)
            entry = session.get(GatewayModel, model)
        if recorded is not None:
            return recorded
        if entry is None:
            raise GatewayFailed(f"no model {model} behind the gateway: add it first")
        if self._stopping():
            raise Interrupted("the server stops: no new call is made")
        crash.point("before_reserve")
        call_id, reservation = self._open(place, entry, ask)
        crash.point("after_reserve")
        try:
            answer = simulated.answer(entry.name, ask, self._pace)
        except Exception as error:
            write_surely(self._store, partial(_fail, call_id, reservation, str(error)))
            raise GatewayFailed(f"{model}: {error}") from error
        crash.point("after_send")
        write_surely(self._store, lambda s: _settle(s, call_id, reservation, entry, answer))
        crash.point("after_settle")
        return answer

    def _open(self, place: CallPlace, model: GatewayModel, ask: Ask) -> tuple[int, int]:
        try:
            opened: tuple[int, int] = self._store.write(lambda s: _open(s, place, model, ask))
            return opened
        except ledger.CapExceeded as error:
            raise CapReached(str(error)) from None


class GatewayStudent:
    """A gateway model in the student's seat: the engine of dry runs. It trains nothing."""

    def __init__(self, gateway: Gateway, model: str, place: CallPlace) -> None:
        self.name = f"gateway-{model}"
        self.simulated = model in simulated.MODELS
        self._gateway, self._model, self._place = gateway, model, place

    def generate(
        self,
        model: ModelRef,
        asks: Sequence[Ask],
        on_batch: Callable[[list[Answer]], None],
        stop: Stop,
    ) -> None:
        """Ask a few at a time; each answer is recorded and paid before it counts."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for start in range(0, len(asks), BATCH):
                if stop():
                    raise Interrupted("stopped between two batches of calls")
                batch = asks[start : start + BATCH]
                on_batch(list(pool.map(self._call, batch)))

    def _call(self, ask: Ask) -> Answer:
        return self._gateway.call(self._place, self._model, ask)

    def train(
        self, job: TrainJob, on_progress: Callable[[TrainProgress], None], stop: Stop
    ) -> TrainResult:
        """Never: a dry run trains nothing."""
        raise GatewayFailed("a gateway model cannot be trained here")

    def close(self) -> None:
        """Nothing is kept running."""


def _fail(call_id: int, reservation: int, error: str, session: Session) -> None:
    """A call without an answer: nobody can tell what it cost, so it is charged whole."""
    ledger.settle_uncertain(session, reservation, error)
    call = session.get_one(ModelCall, call_id)
    call.status, call.error, call.ended_at = "uncertain", error, now()
    session.add(call)


def settle_leftovers(session: Session, run: str | None = None) -> None:
    """Calls that were sent and never settled, of one run or of all, are charged whole."""
    query = select(ModelCall).where(ModelCall.status == "sent")
    for call in session.exec(query if run is None else query.where(ModelCall.run == run)):
        call.status, call.ended_at = "uncertain", now()
        call.error = "the answer was never recorded"
        if call.reservation is not None:
            ledger.settle_uncertain(session, call.reservation, call.error)
        session.add(call)


def worst_case(model: GatewayModel, ask: Ask) -> int:
    """The most that one attempt can cost, in micro-dollars: bytes bound tokens from above."""
    tokens_in = sum(len(m["content"].encode()) + MESSAGE_TOKENS for m in ask.messages)
    return _cost(model, tokens_in, ask.max_tokens)


def _cost(model: GatewayModel, tokens_in: int, tokens_out: int) -> int:
    micro = tokens_in * model.input_micro_per_mtok + tokens_out * model.output_micro_per_mtok
    return -(-micro // MTOK)


def _recorded(session: Session, place: CallPlace, ask: Ask) -> Answer | None:
    call = session.exec(_calls(place, ask).where(ModelCall.status == "answered")).first()
    if call is None:
        return None
    return Answer(
        key=ask.key,
        text=call.text,
        tokens_in=call.usage.get("input_tokens", 0),
        tokens_out=call.usage.get("output_tokens", 0),
        finish=call.usage.get("finish", "stop"),
        error=call.error,
    )


def _calls(place: CallPlace, ask: Ask) -> Any:
    return select(ModelCall).where(
        ModelCall.run == place.run.id,
        ModelCall.round == place.round,
        ModelCall.step == place.step,
        ModelCall.call_key == _call_key(ask),
    )


def _call_key(ask: Ask) -> str:
    """Names a call inside its phase: other words or another seed make it another call."""
    return f"{ask.key}@{content_hash([ask.messages, ask.seed])}"


def _open(session: Session, place: CallPlace, model: GatewayModel, ask: Ask) -> tuple[int, int]:
    """Reserve and record the attempt in one transaction, before anything is sent."""
    run = place.run
    reservation = ledger.reserve(
        session,
        run.accounts,
        "model",
        worst_case(model, ask),
        project_id=run.project_id,
        run=run.id,
        requests=1,
    )
    last = session.exec(_calls(place, ask).order_by(col(ModelCall.attempt).desc())).first()
    call = ModelCall(
        project_id=run.project_id,
        run=run.id,
        round=place.round,
        step=place.step,
        call_key=_call_key(ask),
        attempt=1 if last is None else last.attempt + 1,
        role=place.role,
        model=model.name,
        simulated=model.simulated,
        request_hash=content_hash(ask.messages),
        reservation=reservation,
        price={
            "input_micro_per_mtok": model.input_micro_per_mtok,
            "output_micro_per_mtok": model.output_micro_per_mtok,
        },
    )
    session.add(call)
    session.flush()
    assert call.id is not None
    crash.point("in_reserve")
    return call.id, reservation


def _settle(
    session: Session, call_id: int, reservation: int, model: GatewayModel, answer: Answer
) -> None:
    cost = _cost(model, answer.tokens_in, answer.tokens_out)
    ledger.settle(session, reservation, cost)
    call = session.get_one(ModelCall, call_id)
    call.status, call.text, call.cost, call.ended_at = "answered", answer.text, cost, now()
    call.usage = {
        "input_tokens": answer.tokens_in,
        "output_tokens": answer.tokens_out,
        "finish": answer.finish,
    }
    session.add(call)
    crash.point("in_settle")
