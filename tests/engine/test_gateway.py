"""The gateway: every attempt is reserved, sent once, settled; what fails is charged or given back."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from data import ledger
from data.store import Store
from data.tables import Account, GatewayModel, ModelCall, Project, Run
from engine.errors import (
    CapReached,
    GatewayFailed,
    Interrupted,
    ModelUnavailable,
    PriceBoundViolated,
    RequestsUsedUp,
)
from engine.facts import read_facts
from engine.models import calls
from engine.models.calls import Slot
from engine.models.gateway import CallPlace, Gateway
from engine.models.gateway_student import GatewayStudent
from engine.models.simulated import model_ref
from engine.types import Answer, Ask
from tests.fake_provider import (
    CACHED,
    INPUT,
    LONG_ABOVE,
    LONG_INPUT,
    LONG_OUTPUT,
    OUTPUT,
    FakeProvider,
)
from tests.instance import LIBRARY, instance

RUN, PROJECT = "run:a", "project:p"
TIERS = [{"above": LONG_ABOVE, "input": LONG_INPUT, "output": LONG_OUTPUT, "cached": CACHED}]


class Desk:
    """A store with one run's account, and a gateway with one remote model `m`."""

    def __init__(self, folder: Path, provider: FakeProvider, **limits: float) -> None:
        self.store = Store(folder / "pawl.db")
        self.stopping = False
        self.gateway = self.make_gateway()

        def begin(s: Any) -> None:
            s.add(Project(id="p", workspace_id="w", name="P"))
            s.flush()
            ledger.open_account(s, RUN, "p", limits)
            ledger.open_account(s, PROJECT, "p")
            s.add(remote_model(provider))

        self.store.write(begin)

    def ask(
        self, key: str = "k", *, words: str = "17 + 25 = ?", tokens: int = 64, **more: Any
    ) -> str | None:
        slot = {"role": "operator", **more.pop("slot", {})}
        asked = Ask(key=key, messages=[{"role": "user", "content": words}], max_tokens=tokens)
        place = Slot(project_id="p", accounts=[RUN, PROJECT], run="a", round=1, step="plan", **slot)
        return self.gateway.call(place, "m", asked, **more).text

    def make_gateway(self, **seconds: float) -> Gateway:
        """One that tries again at once and waits long for an answer, unless told otherwise."""
        given = {"retry_seconds": 0.02, "read_seconds": 60.0, **seconds}
        return Gateway(self.store, 0.0, lambda: self.stopping, **given)

    @property
    def account(self) -> Account:
        with self.store.read() as session:
            return session.get_one(Account, RUN)

    @property
    def calls(self) -> list[ModelCall]:
        with self.store.read() as session:
            return list(session.exec(select(ModelCall)))

    def change_model(self, change: Callable[[GatewayModel], object]) -> None:
        def write(s: Any) -> None:
            model = s.get_one(GatewayModel, "m")
            change(model)
            s.add(model)

        self.store.write(write)


def remote_model(provider: FakeProvider, **more: Any) -> GatewayModel:
    return GatewayModel(
        name="m",
        base_url=provider.base_url,
        key_env="PAWL_TEST_KEY",
        local=True,
        input_micro_per_mtok=INPUT,
        output_micro_per_mtok=OUTPUT,
        cached_micro_per_mtok=CACHED,
        tiers=TIERS,
        **more,
    )


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PAWL_TEST_KEY", "the-secret-of-m")
    return "the-secret-of-m"


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as one:
        yield one


@pytest.fixture
def at_desk(tmp_path: Path, provider: FakeProvider) -> Iterator[Callable[..., Desk]]:
    """Makes the desk of a run with the given caps."""
    desks: list[Desk] = []

    def make(**limits: float) -> Desk:
        desks.append(Desk(tmp_path, provider, **limits))
        return desks[-1]

    yield make
    for desk in desks:
        desk.store.close()


def doing(*names: str) -> Callable[[Any], str]:
    """What the provider does with one request after the other; the last one for all that follow."""
    left = list(names)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_an_answer_costs_what_the_provider_bills_and_keeps_its_own_record(at_desk, provider, key):
    desk = at_desk(max_model_cost_usd=1)
    provider.cached = lambda tokens: 10_000
    words = "x" * 4 * (10_500 - 4)
    desk.change_model(lambda model: setattr(model, "tiers", []))
    assert desk.ask(words=words) == "42"
    (call,) = desk.calls
    assert call.cost == desk.account.model_settled == 500 * 3 + 10_000 * 3 // 10 + 15
    assert (call.usage["input_tokens"], call.usage["cached_tokens"]) == (10_500, 10_000)
    assert call.usage["raw"]["prompt_tokens_details"] == {"cached_tokens": 10_000}
    assert (call.status, call.uncertain, call.max_tokens) == ("answered", False, 64)
    assert desk.account.model_reserved == 0
    assert provider.headers[0]["authorization"] == f"Bearer {key}"
    assert key.encode() not in (desk.store.path).read_bytes()


def test_a_call_that_was_answered_is_never_sent_again(at_desk, provider):
    desk = at_desk()
    assert [desk.ask(), desk.ask()] == ["42", "42"]
    assert len(provider.requests) == 1
    desk.ask(words="18 + 25 = ?")
    desk.ask(json_schema={"type": "object"})
    assert len(provider.requests) == 3
    form = provider.requests[-1]["response_format"]
    assert form["json_schema"]["schema"] == {"type": "object"}


@pytest.mark.parametrize("does", ["broken", "silent", "billed 429", "billed 500"])
def test_what_may_have_cost_money_is_charged_whole_and_asked_again(at_desk, provider, does):
    desk = at_desk(max_model_requests=3)
    if does == "silent":
        provider.silent_seconds = 60.0
        desk.gateway = desk.make_gateway(read_seconds=1.5)
    provider.behave = doing(does, does, "answer")
    assert desk.ask() == "42"
    assert [call.status for call in desk.calls] == ["uncertain", "uncertain", "answered"]
    assert [call.attempt for call in desk.calls] == [1, 2, 3]
    uncertain = [call.cost for call in desk.calls if call.uncertain]
    assert desk.account.model_uncertain == sum(uncertain) and len(uncertain) == 2
    assert desk.account.model_settled >= provider.billed
    assert desk.account.requests == 3


def test_three_failures_are_enough(at_desk, provider):
    desk = at_desk()
    provider.behave = doing("billed 500")
    with pytest.raises(GatewayFailed, match="500"):
        desk.ask()
    assert len(provider.requests) == 3


def test_a_refusal_that_costs_nothing_gives_the_money_back(at_desk, provider):
    desk = at_desk(max_model_cost_usd=1)
    provider.behave = doing("401")
    with pytest.raises(GatewayFailed, match="key is not accepted"):
        desk.ask()
    (call,) = desk.calls
    assert (call.status, call.cost) == ("failed", 0)
    assert (desk.account.model_settled, desk.account.model_reserved) == (0, 0)
    assert desk.account.requests == 1, "asked is asked"


def test_an_answer_that_does_not_say_its_usage_is_charged_whole(at_desk, provider):
    desk = at_desk()
    provider.behave = doing("no usage")
    assert desk.ask() == "42"
    (call,) = desk.calls
    assert (call.status, call.uncertain) == ("answered", True)
    assert desk.account.model_uncertain == call.cost > provider.billed
    assert "output_tokens" not in call.usage, "not told is not 0"


def test_near_the_cap_answers_become_shorter_and_then_there_are_none(at_desk, provider):
    desk = at_desk(max_model_cost_usd=0.002)
    provider.say = lambda body: "x" * 4 * body["max_tokens"]
    with pytest.raises(CapReached, match=r"model cap \$0\.002 .* left \(run a\)"):
        for number in range(20):
            desk.ask(str(number), tokens=50, least_tokens=10)
    sent = [body["max_tokens"] for body in provider.requests]
    assert sent[0] == 50 and 10 <= sent[-1] < 50
    assert provider.billed == desk.account.model_settled <= 2_000
    least = calls.prices.worst_case({"input": INPUT, "output": OUTPUT}, [{}], 10)
    assert 2_000 - provider.billed < 1_000 + least


def test_money_of_a_call_that_could_not_be_settled_is_not_waited_for(
    at_desk, provider, monkeypatch
):
    desk = at_desk(max_model_cost_usd=0.002)

    def fails(*_: Any) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("engine.models.gateway.write_surely", fails)
        with pytest.raises(OSError, match="no room"):
            desk.ask("1", tokens=50)
    with pytest.raises(CapReached, match="model cap"):
        desk.ask("2", tokens=50, least_tokens=50)
    assert len(provider.requests) == 1


def test_a_student_is_not_given_fewer_tokens_than_its_protocol_says(at_desk, provider):
    desk = at_desk(max_model_cost_usd=0.002)
    provider.say = lambda body: "x" * 4 * body["max_tokens"]
    with pytest.raises(CapReached):
        for number in range(20):
            desk.ask(str(number), tokens=50, least_tokens=50)
    assert {body["max_tokens"] for body in provider.requests} == {50}


def test_a_cap_of_the_project_counts_as_well(at_desk):
    desk = at_desk(max_model_cost_usd=1)
    desk.store.write(lambda s: ledger.set_caps(s, PROJECT, {"max_cost_usd": 0.0005}))
    with pytest.raises(CapReached, match=r"total cap \$0\.0005 .*\(project p\)"):
        desk.ask(tokens=50, least_tokens=50)
    desk.store.write(lambda s: ledger.set_caps(s, PROJECT, {"max_cost_usd": None}))
    assert desk.ask(tokens=50) == "42"


@pytest.mark.parametrize("does", ["overlong", "too long"])
def test_a_provider_that_breaks_its_bound_is_blocked_until_somebody_confirms(
    at_desk, provider, does
):
    desk = at_desk(max_model_cost_usd=1)
    provider.behave = doing(does, "answer")
    with pytest.raises(PriceBoundViolated, match=r"^PRICE_BOUND_VIOLATED: .*model confirm m"):
        desk.ask()
    with pytest.raises(PriceBoundViolated):
        desk.ask("another")
    assert len(provider.requests) == 1
    if does == "too long":
        assert desk.account.model_settled == provider.billed, "what it says is what is charged"
    desk.change_model(lambda model: setattr(model, "blocked", None))
    assert desk.ask("another") == "42"


def test_what_was_reserved_at_one_price_is_settled_at_that_price(at_desk, provider):
    desk = at_desk()

    def dearer(_: Any) -> str:
        desk.change_model(lambda model: setattr(model, "output_micro_per_mtok", 10 * OUTPUT))
        return "42"

    provider.say = dearer
    desk.ask("old")
    assert desk.account.model_settled == provider.billed
    assert desk.calls[0].price["output"] == OUTPUT
    desk.ask("new")
    assert desk.calls[1].price["output"] == 10 * OUTPUT
    assert desk.calls[0].cost == desk.account.model_settled - desk.calls[1].cost


def test_a_round_asks_as_often_as_it_may_by_role(at_desk, provider):
    desk = at_desk()
    desk.ask("1", slot={"role": "operator", "round_cap": 2})
    desk.ask("2", slot={"role": "teacher", "round_cap": 2})
    with pytest.raises(RequestsUsedUp, match="^request_cap: round 1 has made the 2 requests"):
        desk.ask("3", slot={"role": "operator", "round_cap": 2})
    assert desk.ask("4", slot={"role": "student", "round_cap": 1}) == "42"
    with pytest.raises(RequestsUsedUp, match="^student_request_cap"):
        desk.ask("5", slot={"role": "student", "round_cap": 1})
    assert len(provider.requests) == 3


def test_a_key_that_is_missing_is_named_and_nothing_is_sent(
    at_desk, provider, monkeypatch, tmp_path
):
    desk = at_desk()
    monkeypatch.delenv("PAWL_TEST_KEY")
    with pytest.raises(ModelUnavailable, match="model m: .*PAWL_TEST_KEY is not set"):
        desk.ask()
    file = tmp_path / "key"
    desk.change_model(lambda model: setattr(model, "key_env", None))
    desk.change_model(lambda model: setattr(model, "key_file", str(file)))
    with pytest.raises(ModelUnavailable, match="cannot be read: No such file"):
        desk.ask()
    file.write_text("in-a-file\n")
    file.chmod(0o644)
    with pytest.raises(ModelUnavailable, match="chmod 600"):
        desk.ask()
    file.chmod(0o600)
    for wrong in ("first\nsecond\n", "schl\u00fcssel\n"):
        file.write_text(wrong)
        with pytest.raises(ModelUnavailable, match="no key has"):
            desk.ask()
    os.mkfifo(tmp_path / "pipe", 0o600)
    desk.change_model(lambda model: setattr(model, "key_file", str(tmp_path / "pipe")))
    with pytest.raises(ModelUnavailable, match="not a plain file"):
        desk.ask()
    desk.change_model(lambda model: setattr(model, "key_file", str(file)))
    assert provider.requests == [] and desk.account.model_settled == 0
    file.write_text("in-a-file\n")
    assert desk.ask() == "42"
    assert provider.headers[0]["authorization"] == "Bearer in-a-file"


def test_a_server_that_stops_tries_no_more(at_desk, provider):
    desk = at_desk()

    def stop(_: Any) -> str:
        desk.stopping = True
        return "billed 500"

    provider.behave = stop
    desk.gateway = desk.make_gateway(retry_seconds=600)
    began = time.monotonic()
    with pytest.raises(Interrupted):
        desk.ask()
    assert time.monotonic() - began < 200, "the pause before the next attempt ends at once"
    assert len(provider.requests) == 1


def test_a_model_that_is_not_there_is_named(at_desk):
    desk = at_desk()
    desk.store.write(lambda s: s.delete(s.get_one(GatewayModel, "m")))
    with pytest.raises(GatewayFailed, match="no model m behind the gateway"):
        desk.ask()


def asks(count: int) -> list[Ask]:
    said = [{"role": "user", "content": "17 + 25 = ?"}]
    return [Ask(key=str(number), messages=said, max_tokens=8) for number in range(count)]


def test_a_student_that_fails_now_and_then_leaves_tasks_without_an_answer(tmp_path, provider):
    numbers = count(1)  # each request takes one, though many come at once
    provider.behave = lambda body: "answer" if next(numbers) % 5 else "401"
    with student_at(tmp_path, provider) as (student, answers):
        student.generate(model_ref(), asks(30), answers.extend, lambda: False)
    silent = [one for one in answers if one.text is None]
    assert len(answers) == 30 and len(silent) == 6
    assert all("key is not accepted" in (one.error or "") for one in silent)


def test_a_student_that_is_not_there_ends_the_phase(tmp_path, provider):
    provider.behave = doing("401")
    with (
        student_at(tmp_path, provider) as (student, answers),
        pytest.raises(GatewayFailed, match="key is not accepted"),
    ):
        student.generate(model_ref(), asks(30), answers.extend, lambda: False)
    assert answers == []


@contextmanager
def student_at(
    folder: Path, provider: FakeProvider
) -> Iterator[tuple[GatewayStudent, list[Answer]]]:
    """A remote student in round 1 of a real run, and where its answers go."""
    with instance(folder) as pawl:
        pawl.store.write(lambda s: s.add(remote_model(provider)))
        pawl.start("a", dry_run=True, student_model="m")
        with pawl.store.read() as session:
            facts = read_facts(session.get_one(Run, "a"), LIBRARY, pawl.home)

        def open_accounts(s: Any) -> None:
            for account in facts.accounts:
                ledger.open_account(s, account, facts.project_id)

        pawl.store.write(open_accounts)
        place = CallPlace(run=facts, round=1, step="diagnose", role="student")
        yield GatewayStudent(Gateway(pawl.store, 0.0, retry_seconds=0.01), "m", place), []


def test_a_round_of_a_dry_run_keeps_its_request_caps_and_goes_on(tmp_path):
    """Development and blind evaluation get their share whatever the phases before have asked."""
    limits = {
        "max_model_cost_usd": 1.0,
        "diag_per_family": 2,
        "dev_n": 16,
        "collect_tasks": 12,
        "collect_k": 1,
        "blind_n": 16,
        "eval_limit": 8,
        "student_request_cap": 40,
        "request_cap": 3,
    }
    models = {"operator_model": "sim/operator", "teacher_model": "sim/teacher"}
    with instance(tmp_path) as pawl:
        pawl.start("a", dry_run=True, rounds=1, limits=limits, **models)
        assert pawl.wait("a", 120).state == "finished"
        with pawl.store.read() as session:
            made = session.exec(select(ModelCall).where(ModelCall.round == 1)).all()
    roles = Counter("student" if call.role == "student" else "strong" for call in made)
    assert roles == {"student": 40, "strong": 3}
    phases = Counter(call.step for call in made if call.role == "student")
    assert (phases["develop"], phases["blind"]) == (16, 16)


def test_a_dry_run_of_a_remote_student_comes_to_its_end_and_pays_what_is_billed(tmp_path, provider):
    small = {"diag_per_family": 2, "dev_n": 16, "collect_tasks": 12, "collect_k": 1, "blind_n": 16}
    limits = {"max_model_cost_usd": 1.0, "eval_limit": 8, **small}
    with instance(tmp_path) as pawl:
        pawl.store.write(lambda s: s.add(remote_model(provider)))
        pawl.start("a", dry_run=True, student_model="m", rounds=1, limits=limits)
        found = pawl.wait("a", 120)
        with pawl.store.read() as session:
            account = session.get_one(Account, "run:a")
    assert (found.state, found.reason) == ("finished", "1 round, 0 promoted")
    assert account.model_settled == provider.billed > 0
