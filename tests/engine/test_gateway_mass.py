"""Thousands of calls to a provider that does its worst: the caps hold, and no spend is lost.

The provider has a ledger of its own, which is the truth. The calls are made by processes that are
killed at every moment of a call, 64 of them in flight each time.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Self

import pytest
from sqlmodel import select

from data import ledger
from data.store import Store
from data.tables import Account, GatewayModel, LedgerEntry, ModelCall, Project, Reservation
from engine.models import calls
from tests.crash_trial import ROOT
from tests.engine.test_gateway import remote_model
from tests.fake_provider import LONG_ABOVE, FakeProvider, beginning
from tests.gateway_lives import WORDS

LONG = os.environ.get("PAWL_LONG") == "1"
CALLS = 100_000 if LONG else 10_000
MIX = {  # what the provider does with a request, in percent
    "answer": 81,
    "no usage": 3,
    "broken": 3,
    "silent": 2,
    "billed 429": 4,
    "billed 500": 4,
    "401": 3,
}
WORTH, AT_RISK = 420, 1_900  # micro-dollars charged for an attempt, for one in flight at a death
# Seconds that a call waits for more: with a provider that may be silent, and with one that answers.
SILENCE, PATIENCE = 1.0, 60.0
# A life each: killed by itself at a point, or by the provider that has read a request, sent half of
# an answer, or the whole of one.
DEATHS = (
    *("before_reserve", "in_reserve", "after_reserve", "read", "half", "whole", "after_send"),
    *("in_settle", "after_settle", "in_charge", "in_release", "before_retry"),
)
RARE = {"in_charge": 9, "in_release": 30, "before_retry": 9}  # how much rarer they are than calls

pytestmark = pytest.mark.timeout(3600 if LONG else 1200)


class Lives:
    """A database, its provider, and processes that make calls on it one after the other."""

    def __init__(self, folder: Path, provider: FakeProvider, **limits: float) -> None:
        self.database, self.provider = folder / "pawl.db", provider
        self.ended: Counter[str] = Counter()
        self._forge = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway_lives"],
            cwd=ROOT,
            env={**os.environ, "PAWL_TEST_KEY": "k"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

        def begin(s: Any) -> None:
            s.add(Project(id="p", workspace_id="w", name="P"))
            s.flush()
            ledger.open_account(s, "run:a", "p", limits)
            ledger.open_account(s, "project:p", "p")
            s.add(remote_model(provider))

        self._write(begin)

    def live(
        self,
        numbers: range,
        death: str = "",
        at: int = 0,
        at_once: int = 64,
        long_every: int = 500,
        seconds: float = SILENCE,
    ) -> int:
        """One life that makes these calls, or dies on the way; its exit code."""
        by_itself = death in calls.crash.POINTS
        given = {
            "database": str(self.database),
            "numbers": list(numbers),
            "crash_at": f"{death}#{at}" if by_itself else "",
            "at_once": at_once,
            "seconds": seconds,
            "words": 2 * LONG_ABOVE,
            "long_every": long_every,
        }
        assert self._forge.stdin and self._forge.stdout
        self._forge.stdin.write(json.dumps(given) + "\n")
        self._forge.stdin.flush()
        pid = json.loads(self._forge.stdout.readline())["pid"]
        if death and not by_itself:
            self.provider.passed = Killer(pid, death, at)
        told = json.loads(self._forge.stdout.readline())
        self.provider.passed = lambda moment: None
        self.provider.rest()  # what the dead have asked for is worked on, and billed
        self.ended.update(told["ended"])
        return int(told["code"])

    def recover(self) -> Account:
        """What the next start does with what a death left, and the account after it."""
        self._write(lambda s: calls.settle_leftovers(s))
        store = Store(self.database)
        with store.read() as session:
            account = session.get_one(Account, "run:a")
        store.close()
        return account

    def _write(self, change: Any) -> None:
        store = Store(self.database)
        store.write(change)
        store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forge.communicate()


class Killer:
    """Kills a process when the provider passes a moment for the n-th time."""

    def __init__(self, pid: int, moment: str, at: int) -> None:
        self._pid, self._moment, self._left = pid, moment, at

    def __call__(self, moment: str) -> None:
        if moment == self._moment:
            self._left -= 1
            if self._left == 0:
                os.kill(self._pid, signal.SIGKILL)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """Does as `MIX` says, the same for a request at the same time it is made."""
    seen: Counter[str] = Counter()

    def behave(body: dict[str, Any]) -> str:
        words = beginning(body)
        seen[words] += 1
        return Random(f"{words}|{seen[words]}").choices([*MIX], [*MIX.values()])[0]

    with FakeProvider(behave, cached=lambda tokens: tokens // 3) as one:
        one.silent_seconds = 1.2 * SILENCE
        yield one


def check(account: Account, provider: FakeProvider) -> None:
    """The oracle: what was truly billed is within the cap, and all of it is accounted for."""
    assert account.model_reserved == 0
    assert provider.billed <= account.model_settled, "spend was lost"
    assert account.model_cap is not None and account.model_settled <= account.model_cap
    assert len(provider.requests) <= account.requests


def check_rows(database: Path, provider: FakeProvider) -> Counter[str]:
    """Calls, reservations and entries tell the same as the account; how the calls ended."""
    store = Store(database)
    with store.read() as session:
        made = session.exec(select(ModelCall)).all()
        held = session.exec(select(Reservation)).all()
        entries = session.exec(select(LedgerEntry).where(LedgerEntry.account == "run:a")).all()
        account = session.get_one(Account, "run:a")
    store.close()
    assert len(made) == len(held) == account.requests
    assert sum(call.cost or 0 for call in made) == account.model_settled
    uncertain = sum(call.cost or 0 for call in made if call.uncertain)
    assert uncertain == account.model_uncertain
    assert account.model_settled == sum(one.amount for one in entries if one.kind != "reserve")
    answered = Counter(call.call_key for call in made if call.status == "answered")
    assert set(answered.values()) == {1}, "a call was answered twice"
    charged: Counter[str] = Counter()
    for call in made:
        number = call.call_key.partition("@")[0]
        charged[WORDS.format(number=number)] += call.cost or 0
    lost = {
        words
        for words, cost in provider.billed_for.items()
        if cost > charged[words[:40].split(" x")[0]]
    }
    assert not lost, "what was billed for a call is more than it was charged at"
    return Counter(call.status for call in made)


def test_the_caps_hold_whatever_the_provider_does_and_whenever_the_process_dies(
    tmp_path: Path, provider: FakeProvider
) -> None:
    share = CALLS // (len(DEATHS) // 2 + 2)
    worth = 1.3 * (CALLS * WORTH + len(DEATHS) * 64 * AT_RISK)
    begin = 0
    with Lives(tmp_path, provider, max_model_cost_usd=worth / 1e6) as lives:
        for death in DEATHS:
            at = max(1, share // 3 // RARE.get(death, 1))
            code = lives.live(range(begin, begin + share), death, at)
            assert code == -signal.SIGKILL, f"{death}#{at} never came"
            check(lives.recover(), provider)
            begin += share // 2  # the rest again: what was answered is not asked
        while len(provider.requests) < CALLS:
            assert lives.live(range(begin, begin + share)) == 0
            check(lives.recover(), provider)
            begin += share
        assert not lives.ended["money"], "calls go side by side up to here"
        while not lives.ended["money"]:  # long requests use up what is left
            assert lives.live(range(begin, begin + 200), long_every=1) == 0
            begin += 200
        account = lives.recover()
        check(account, provider)
    assert account.model_cap is not None
    left = account.model_cap - account.model_settled
    assert left < 110_000, "money is left that one more long request could have had"
    statuses = check_rows(tmp_path / "pawl.db", provider)
    print(f"{account.requests} attempts, {len(provider.requests)} requests, {dict(statuses)},")
    print(f"billed {provider.billed}, charged {account.model_settled}, left {left}")
    assert all(provider.did[does] for does in MIX)


def test_the_request_cap_is_exact_with_retries_and_deaths(
    tmp_path: Path, provider: FakeProvider
) -> None:
    with Lives(tmp_path, provider, max_model_cost_usd=10, max_model_requests=300) as lives:
        assert lives.live(range(150), "read", 60) == -signal.SIGKILL
        assert lives.live(range(150), "in_settle", 40) == -signal.SIGKILL
        assert lives.live(range(1000)) == 0
        account = lives.recover()
    assert lives.ended["requests"] > 500
    assert account.requests == 300
    assert len(provider.requests) <= 300
    check(account, provider)
    check_rows(tmp_path / "pawl.db", provider)


def test_a_provider_that_bills_more_than_was_allowed_is_stopped_at_once(tmp_path: Path) -> None:
    def behave(body: dict[str, Any]) -> str:
        return "too long" if "5" in body["messages"][0]["content"] else "answer"

    with FakeProvider(behave) as provider:
        with Lives(tmp_path, provider, max_model_cost_usd=1) as lives:
            assert lives.live(range(200), at_once=16, seconds=PATIENCE) == 0
            account = lives.recover()
        assert 1 <= provider.did["too long"] <= 16, "at most the calls in flight"
        assert lives.ended["violated"] >= 150
        assert account.model_settled == provider.billed
        check(account, provider)
    store = Store(tmp_path / "pawl.db")
    with store.read() as session:
        why = session.get_one(GatewayModel, "m").blocked
    store.close()
    assert why and why.startswith("PRICE_BOUND_VIOLATED: model m says")


def test_near_the_end_calls_go_one_at_a_time_and_a_breach_costs_one_call(tmp_path: Path) -> None:
    at_work: list[int] = []

    def behave(body: dict[str, Any]) -> str:
        at_work.append(provider.at_work)
        # Beyond a tenth left by more than what 16 calls in flight are billed before it is settled.
        return "too long" if provider.billed > 0.95 * 400_000 else "answer"

    with FakeProvider(behave, say=lambda body: "x" * 240) as provider:
        with Lives(tmp_path, provider, max_model_cost_usd=0.4) as lives:
            assert lives.live(range(600), at_once=16, seconds=PATIENCE) == 0
        assert max(at_work) > 1, "with plenty left, calls go side by side"
        assert provider.did["too long"] == 1
        assert provider.billed <= 400_000 + 3 * 64 * 22
        assert lives.ended["violated"] > 100
