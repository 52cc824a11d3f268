"""Deployed versions: taken up, answered for, paused and put to sleep, as their rows say.

A call reads its job, waits for the process that answers, and leaves one row of its usage. What was
said is kept nowhere.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from data.home import Home
from data.settings import setting
from data.store import Store, StoreClosed
from data.tables import Job
from engine.disk import write_surely
from engine.errors import EndpointNotReady, EngineError, Interrupted
from engine.machine import Machine
from engine.models import registry
from engine.serving import endpoint_rows as rows
from engine.serving.bodies import CHAT, read_messages, refuse_foreign
from engine.serving.calls import Call, Chunks, counted
from engine.serving.choice import make_host, need_of
from engine.serving.holding import begin_serving, end_serving
from engine.serving.hosts import Hosts, Means, Seat
from engine.types import ModelRef, Stop

log = logging.getLogger(__name__)

FindBase = Callable[[str], ModelRef]
IDLE_MINUTES = "10"  # where the settings say nothing else
# The tokens so far in each chunk, for whoever leaves before the last.
USAGE = {"include_usage": True, "continuous_usage_stats": True}


class Endpoints:
    """Lends answers to the doors (`Completions` of engine/types.py) and keeps their jobs' rows."""

    def __init__(
        self, store: Store, home: Home, base_model: FindBase, machine: Machine, stop: Stop
    ) -> None:
        self._store, self._home, self._base_model = store, home, base_model
        self._stop = stop
        self._looking = threading.Lock()
        means = Means(
            make=lambda base: make_host(
                store,
                home,
                machine.serving_places(need_of(home, base.base, machine.places().serve_device)),
            ),
            begin=lambda job: begin_serving(store, job, machine.places().serve_device),
            end=lambda held: end_serving(store, held),
            why_not=lambda base: machine.may_serve(
                need_of(home, base.base, machine.places().serve_device)
            ),
            told=self._tell,
            stop=stop,
        )
        self._hosts = Hosts(means)
        machine.make_room = self._hosts.make_room

    def look(self) -> None:
        """Carry out what was asked of endpoints, take up new ones, end processes in no use."""
        with self._looking:
            if rows.has_requests(self._store):
                for asked, wakes in self._store.write(rows.carry_out):
                    if wakes:
                        self._try_wake(asked)
            for job in rows.queued(self._store):
                if self._store.write(partial(rows.begin, job=job.id)):
                    self._apart(self._take_up, job)
            self._agree()
        if "ready" in self._hosts.states().values():
            self._hosts.look(self._idle_seconds(), rows.needed(self._store))

    def ask(
        self,
        job: str,
        route: str,
        body: Mapping[str, Any],
        actor: str,
        left: Stop = lambda: False,
    ) -> dict[str, Any]:
        """The whole answer of a deployed version; one that sleeps is woken and waited for.

        Once `left` says that the caller has gone, or the server ends, so does the answer.
        """
        row, asked = self._open(job, route, body)
        call = Call(store=self._store, job=row, actor=actor, route=route)
        with call, self._hosts.use(self._model(row), row.id) as host:
            answer = host.ask(self._model(row), route, asked, lambda: left() or self._stop())
            call.used(answer.get("usage") or {})
            return answer | {"model": row.spec["version"]}

    def stream(
        self, job: str, route: str, body: Mapping[str, Any], actor: str
    ) -> Iterator[dict[str, Any]]:
        """The same in chunks; the first is there when this returns, closing it ends the answer."""
        row, asked = self._open(job, route, body)
        options = body.get("stream_options") or {}
        wants_usage = isinstance(options, dict) and options.get("include_usage") is True
        asked |= {"stream": True, "stream_options": USAGE}
        call = Call(store=self._store, job=row, actor=actor, route=route)

        def chunks() -> Iterator[dict[str, Any]]:
            model = self._model(row)
            with call, self._hosts.use(model, row.id) as host:
                found = host.stream(model, route, asked)
                try:
                    yield from counted(found, call, row.spec["version"], wants_usage)
                finally:
                    getattr(found, "close", lambda: None)()

        return Chunks(chunks())

    def close(self) -> None:
        """End every process; calls under way end as HostGone."""
        self._hosts.close()

    def _open(self, job: str, route: str, body: Mapping[str, Any]) -> tuple[Job, dict[str, Any]]:
        """The job, once what was asked of it is carried out, and the body as its version is asked."""
        refuse_foreign(body)
        if rows.is_asked(self._store, job):
            self.look()
        row = rows.read(self._store, job)
        name = row.spec["version"]
        if row.status not in rows.ACTIVE:
            raise EndpointNotReady(f"{name} is {row.status}: deploy it again")
        if row.result.get("state") == "paused":
            raise EndpointNotReady(f"{name} is paused: resume job {row.id} first")
        return row, in_harness(row.spec.get("harness") or {}, route, body)

    def _model(self, row: Job) -> ModelRef:
        """The weights that a job deploys, found on this machine."""
        base, adapter = self._base_model(row.spec["base_model"]), row.spec.get("adapter")
        if adapter is None:
            return base
        folder = self._home.checkpoints / adapter
        return replace(base, adapter=str(folder), adapter_hash=adapter)

    def _take_up(self, row: Job) -> None:
        """Show once that a new endpoint answers, or say why it cannot."""
        status, reason = self._try_out(row)
        if self._stop():  # it says nothing of the endpoint; the next start takes it up anew
            return
        base = row.spec["base_model"]
        state = shown_state(self._hosts.states().get(base, "asleep"))
        outcome = rows.Outcome(
            status=status, reason=reason, state=state, engine=self._hosts.engine_of(base)
        )
        with suppress(StoreClosed):
            write_surely(self._store, lambda s: rows.settle(s, row.id, outcome))

    def _try_out(self, row: Job) -> tuple[str, str | None]:
        """The status of an endpoint whose process was asked for once, and the reason of it."""
        try:
            model = self._model(row)
            if model.adapter is not None:  # looked at whole once; later loads look again
                registry.with_adapter(self._base_model(row.spec["base_model"]), Path(model.adapter))
            with self._hosts.use(model, row.id):
                pass
        except (EndpointNotReady, Interrupted) as later:
            return "running", str(later)
        except EngineError as error:
            return "failed", str(error)
        except Exception as error:
            log.exception("endpoint %s was not taken up", row.id)
            return "failed", f"{type(error).__name__}: {error}"
        return "running", None

    def _agree(self) -> None:
        """Have every row say what its process does, also where the two changed at once."""
        found = {base: shown_state(state) for base, state in self._hosts.states().items()}
        if found and rows.disagreeing(self._store, found):
            self._store.write(lambda s: rows.agree(s, found))

    def _try_wake(self, job: str) -> None:
        row = rows.read(self._store, job)
        self._apart(lambda one: self._hosts.wake(self._model(one), one.id), row)

    def _tell(self, seat: Seat) -> None:
        """Write a process's state into the jobs that it answers for."""
        if self._stop():
            return
        engine = seat.host.name if seat.host is not None else None
        reason = str(seat.failure) if seat.failure is not None else None
        base, state = seat.base.base, shown_state(seat.state)
        with suppress(StoreClosed):
            self._store.write(lambda s: rows.tell(s, base, state, engine, reason))

    def _apart(self, call: Callable[[Job], None], row: Job) -> None:
        threading.Thread(target=call, args=(row,), name=f"endpoint-{row.id}", daemon=True).start()

    def _idle_seconds(self) -> float:
        """How long a process may be of no use; PAWL_ENDPOINT_IDLE_SECONDS wins over the setting."""
        given = os.environ.get("PAWL_ENDPOINT_IDLE_SECONDS")
        if given:
            return float(given)
        with self._store.read() as session:
            return float(setting(session, "endpoint_idle_minutes", IDLE_MINUTES)) * 60


def in_harness(harness: Mapping[str, Any], route: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """A body with what its caller left open filled in as the version was evaluated: the system
    message of a chat, and the temperature."""
    asked = dict(body)
    if harness and asked.get("temperature") is None:
        asked["temperature"] = harness.get("temperature", 0.0)
    if route != CHAT or not harness.get("system"):
        return asked
    messages = read_messages(body)  # a fault is told by the caller's own count
    if not any(one["role"] == "system" for one in messages):
        asked["messages"] = [{"role": "system", "content": harness["system"]}, *messages]
    return asked


def shown_state(seat: str) -> str:
    """A process's state as its endpoints show it."""
    return "asleep" if seat == "closing" else seat
