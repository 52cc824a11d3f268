"""Whatever people ask of runs, in any order and across deaths of the server, a small model agrees."""

import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlmodel import Session, col, select

from app.errors import ServiceError
from app.shapes import RunCompact, SteerShape
from data.tables import Round
from recipes.guard import GUARD
from tests.engine.run_checks import check_events, check_money, check_nothing_open
from tests.engine.run_model import ACTIVE, CONFLICT, ENDED, ENOUGH, INVALID, ModelRun
from tests.engine.stepwise import Stepwise
from tests.instance import LIBRARY, OWNER

LONG = os.environ.get("PAWL_LONG") == "1"
LIMITS: dict[str, Any] = {
    "diag_per_family": 1,
    "dev_n": 4,
    "collect_tasks": 4,
    "collect_k": 1,
    "admission_n": 1,
    "blind_n": 4,
    "eval_limit": 1,
    "calib_n": 1,
}
OPERATED = {"dry_run": True, "operator_model": "sim/operator"}
KINDS: dict[str, tuple[dict[str, Any], float]] = {  # fields, and the cap in dollars
    "operated": (OPERATED, ENOUGH),
    "poor": (OPERATED, 0.01),
    "live": ({"preset": "sim"}, ENOUGH),
}
NO_ROOM = 2**60  # bytes that must be free
A_CENT_A_SECOND = 36_000_000

names = st.sampled_from(["a", "b"])
kinds = st.sampled_from(["operated", "operated", "poor", "live"])
asked = st.sampled_from(["a", "a", "a", "a", "a", "b", "b", "b", "nobody"])
texts = st.sampled_from(["more", "more", "more", "more", " "])
room = st.sampled_from([True, True, True, False])
seen: Counter[str] = Counter()  # states, refusals and ends of steers, over all examples


class Runs(RuleBasedStateMachine):
    """Two runs on one home, asked through the service, driven step by step."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="pawl-runs-")
        self._models: dict[str, ModelRun] = {}
        self._heard: dict[str, str] = {}  # steer -> how it ended
        self._numbers = itertools.count(1)
        self._live(True)

    @initialize(kind=kinds, steered=st.booleans())
    def begin(self, kind: str, steered: bool) -> None:
        self.start("a", kind, 1)
        if steered:
            self.steer("a", "first", 3)

    @rule(name=names, kind=kinds, rounds=st.sampled_from([0, 1, 1, 2]))
    def start(self, name: str, kind: str, rounds: int) -> None:
        fields, cap = KINDS[kind]
        refusal = INVALID if rounds < 1 else CONFLICT if name in self._models else None
        limits = {**LIMITS, "max_model_cost_usd": cap}
        given = {"rounds": rounds, "limits": limits, **fields}
        self._expect(refusal, lambda: self._life.start(name, **given))
        if refusal is None:
            self._models[name] = ModelRun(dry="dry_run" in fields, cap=cap, target=rounds)

    @rule(name=asked, text=texts, steps=st.sampled_from([0, 5, 35]))
    def steer(self, name: str, text: str, steps: int) -> None:
        """Say something, then let the engine work, which may bring it to a plan."""
        text = f"{text}{next(self._numbers)}" if text.strip() else text
        self._ask(name, lambda model: model.steer(text), "steer", text)
        if steps:
            self.work(steps)

    @rule(name=asked, text=texts)
    def direct(self, name: str, text: str) -> None:
        self._ask(name, lambda model: model.direct(text), "add_directive", text)

    @rule(name=asked)
    def stop(self, name: str) -> None:
        self._ask(name, lambda model: model.stop(), "control", "stop")

    @rule(name=asked)
    def resume(self, name: str) -> None:
        self._ask(name, lambda model: model.resume(), "control", "resume")

    @rule(
        name=asked,
        rounds=st.sampled_from([0, 1, 2, 2, 3]),
        cap=st.sampled_from([None, None, 0.01, ENOUGH]),
    )
    def extend(self, name: str, rounds: int, cap: float | None) -> None:
        limits = None if cap is None else {"max_model_cost_usd": cap}
        self._ask(
            name, lambda model: model.extend(rounds, cap), "control", "extend", rounds, limits
        )

    @rule()
    def work_long(self) -> None:
        self.work(35)

    @rule(steps=st.sampled_from([0, 1, 3, 10, 60]))
    def work(self, steps: int) -> None:
        """The engine looks for work, and every run goes on by so many steps; a round has 40."""
        self._life.work(steps)
        self._take_over(lambda model: model.after_work(self._room))

    @rule(room=room)
    def crash(self, room: bool) -> None:
        """The process is gone at once; the next one finds all as it was."""
        self._life.die()
        self._live(room)
        self._take_over(lambda model: {model.state})

    @rule(calls=st.sampled_from([1, 3, 9]), room=room)
    def crash_in_a_call(self, calls: int, room: bool) -> None:
        """The process is gone while calls are paid for, if there are any in its next step."""
        before = self._room
        self._life.die(calls)
        self._live(room)
        self._take_over(lambda model: model.after_work(before))

    @rule(room=room)
    def restart(self, room: bool) -> None:
        """The server ends in order: what it was at goes on when it is there again."""
        before = self._room
        self._life.end()
        self._live(room)
        self._take_over(lambda model: {model.state} | model.after_work(before))

    @rule()
    def fill_disk(self) -> None:
        """A server without room to work in: what it takes up has to wait for a person."""
        self.restart(False)
        self.work(5)

    @invariant()
    def agrees(self) -> None:
        """The doors show each run as the model has it, its steers and its money included."""
        for name, model in self._models.items():
            shown = self.shown(name)
            assert shown.state == model.state, f"{shown} is not {model}"
            assert (shown.round, shown.rounds_target) == (model.round, model.target)
            assert shown.stop_requested == model.stopping
            assert shown.reason or shown.state in ("starting", "running"), "an end has a reason"
            told = [one.text for one in self._life.service.directives(OWNER, name)]
            assert told == model.directives
            seen[model.state] += 1
            with self._life.store.read() as session:
                self._check_steers(session, name, model)
                spent = check_money(session, name, model.cap)
            assert round(shown.spend.total_usd * 1_000_000) == spent

    def teardown(self) -> None:
        try:
            self._come_to_an_end()
        finally:
            self._life.die()
            self._folder.cleanup()

    def _come_to_an_end(self) -> None:
        """Asked to stop, every run ends in a named state."""
        if not self._room:
            self.restart(True)
        for name, model in self._models.items():
            if model.state in ACTIVE:
                self.stop(name)
        for _ in range(3):
            self.work(500)
        self.agrees()
        for name, model in self._models.items():
            assert model.state in ENDED, f"{name} takes no end: {model}"
            with self._life.store.read() as session:
                check_events(session, name, model.state)

    def shown(self, name: str) -> RunCompact:
        """A run as its doors show it."""
        return self._life.service.run_summary(OWNER, name)

    def _live(self, room: bool) -> None:
        """Begin a life of the server."""
        self._room = room
        library = replace(LIBRARY, guard=replace(GUARD, tasks=GUARD.tasks[:4]))
        more = {} if room else {"least_free": NO_ROOM}
        self._life = Stepwise(
            Path(self._folder.name), micro_per_hour=A_CENT_A_SECOND, library=library, **more
        )
        with self._life.store.read() as session:
            check_nothing_open(session)

    def _ask(
        self, name: str, of: Callable[[ModelRun], str | None], method: str, *words: object
    ) -> None:
        model = self._models.get(name)
        refusal = "RSI_RUN_NOT_FOUND" if model is None else of(model)
        ask = getattr(self._life.service, method)
        self._expect(refusal, lambda: ask(OWNER, name, *words))

    def _expect(self, refusal: str | None, ask: Callable[[], object]) -> None:
        try:
            ask()
        except ServiceError as error:
            assert error.code == refusal, f"{error.code} ({error}), not {refusal}"
            seen[error.code] += 1
        else:
            assert refusal is None, f"taken, not refused with {refusal}"

    def _take_over(self, allowed: Callable[[ModelRun], set[str]]) -> None:
        for name, model in self._models.items():
            shown = self.shown(name)
            rounds = self._life.service.list_rounds(OWNER, name).items
            done = sum(one.outcome == "completed" for one in rounds)
            model.worked(allowed(model), shown.state, shown.round, done)

    def _check_steers(self, session: Session, name: str, model: ModelRun) -> None:
        """Each is delivered to one plan, in order, or dropped with a reason; both once for all."""
        steers: list[SteerShape] = self._life.service.run_live(OWNER, name).steers
        assert [one.text for one in steers] == model.steers
        queued = [one for one in steers if one.status == "queued"]
        assert steers[len(steers) - len(queued) :] == queued, "one was passed over"
        assert not queued or model.state in ACTIVE, "nobody will hear it any more"
        rounds = session.exec(select(Round).where(Round.run == name).order_by(col(Round.number)))
        cited = [said["id"] for one in rounds for said in one.plan.get("steers", [])]
        assert cited == [one.id for one in steers if one.status == "delivered"]
        for one in steers[: len(steers) - len(queued)]:
            assert (one.status == "delivered" and model.dry) or one.reason
            assert self._heard.setdefault(one.id, one.status) == one.status
            seen[one.status] += 1


@pytest.mark.timeout(7200 if LONG else 1800)
def test_the_model_agrees_whatever_is_asked_and_whenever_the_server_dies():
    run_state_machine_as_test(
        Runs,
        settings=settings(
            max_examples=300 if LONG else 20,
            stateful_step_count=40 if LONG else 25,
            phases=(Phase.generate, Phase.shrink) if LONG else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    # What few runs come to by chance is in the two stories below.
    assert set(seen) >= {"running", "finished", "stopped", "delivered", "dropped", CONFLICT}


def test_a_run_that_waits_for_room_goes_on_when_it_is_asked_to_and_there_is_some():
    runs = Runs()
    try:
        runs.start("a", "live", 1)
        runs.fill_disk()
        assert "full" in str(runs.shown("a").reason)
        runs.resume("a")
        runs.work(5)
        runs.restart(True)
        runs.work(5)
        assert runs.shown("a").state == "paused"
        runs.resume("a")
        runs.work(100)
        assert runs.shown("a").state == "finished"
        runs.steer("a", "too late", 0)
    finally:
        runs.teardown()


def test_a_run_that_its_cap_cut_short_is_extended_within_its_round_while_its_resume_waits():
    runs = Runs()
    try:
        runs.start("a", "poor", 1)
        runs.work(60)
        runs.agrees()
        assert runs.shown("a").reason.startswith("model cap")
        runs.resume("a")
        runs.extend("a", 1, ENOUGH)
        runs.work(100)
        assert runs.shown("a").state == "finished"
    finally:
        runs.teardown()
