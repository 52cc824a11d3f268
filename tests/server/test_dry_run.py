"""A dry run from the command line to its end: exact money, and "simulated" wherever a figure is."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from app.admin import call_admin
from app.cassette import load
from data.ledger import dollars
from data.tables import (
    Account,
    Checkpoint,
    LedgerEntry,
    ModelCall,
    Reservation,
    Round,
    Run,
    Step,
    Version,
)
from tests.server.process import ROOT, Server, environment_for

RUN, CAPPED = "arith-dry", "arith-dry-capped"
RUNS = "/v1/agent-runs/rsi/runs"
TABS = ("overview", "evaluations", "rounds", "audits", "directives", "cost")
SPAN = "start=2020-01-01T00:00:00Z&end=2099-01-01T00:00:00Z"


@dataclass(kw_only=True)
class Dry:
    """A server on which both runs have ended, and how long they took from start to end."""

    server: Server
    followed: str
    seconds: float

    def el(self, *words: str) -> str:
        """What the command line prints, as a process of its own with the home's key."""
        command = [sys.executable, str(ROOT / "run.py"), "el", *words]
        clear = {n: v for n, v in environment_for(self.server.home.path).items()}
        kept = {n: v for n, v in clear.items() if not n.startswith("ENVLOOP_")}
        done = subprocess.run(command, capture_output=True, text=True, env=kept, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, path: str) -> Any:
        """What REST answers to the owner's key."""
        key = self.server.home.owner_key.read_text().strip()
        asked = urllib.request.Request(self.server.url + path)
        asked.add_header("Authorization", f"Bearer {key}")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read())

    def sum(self, run: str, column: Any, *where: Any) -> int:
        """The whole of a column over a run's rows."""
        return sum(self.server.read(select(column).where(*where)))

    def used_over_time(self, run: str) -> list[int]:
        """Settled and reserved of a run's account after each entry of its ledger."""
        rows = self.server.read(select(Reservation).where(Reservation.run == run))
        held = {row.id: row.amount for row in rows}
        of_account = LedgerEntry.account == f"run:{run}"
        entries = self.server.read(
            select(LedgerEntry).where(of_account).order_by(col(LedgerEntry.id))
        )
        changes = (
            one.amount if one.kind == "reserve" else one.amount - held[one.reservation]
            for one in entries
        )
        return list(accumulate(changes))


@pytest.fixture(scope="module")
def dry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dry]:
    server = Server(tmp_path_factory.mktemp("dry"))
    try:
        one = Dry(server=server, followed="", seconds=0.0)
        start = ("job", "run", "start", "--dry-run", "--student-model", "sim/student")
        began = time.monotonic()
        said = ("--brief", "Learn sums that carry.")
        one.el(*start, RUN, *said, "--max-model-cost-usd", "0.05")
        one.el(*start, CAPPED, *said, "--max-model-cost-usd", "0.0005")
        one.followed = one.el("job", "run", "live", RUN, "--follow")
        one.seconds = time.monotonic() - began
        server.wait_for(select(Run).where(Run.id == CAPPED, Run.state == "stopped"), 120)
        yield one
    finally:
        server.close()


def test_it_finishes_with_nothing_trained_and_nothing_evaluated(dry: Dry) -> None:
    run = dry.server.run(RUN)
    assert (run.state, run.mode, run.simulated, run.base_model) == (
        "finished",
        "dry",
        True,
        "sim/student",
    )
    rounds = dry.server.read(select(Round).where(Round.run == RUN))
    assert [(row.outcome, row.decision) for row in rounds] == [("completed", "not_evaluated")] * 3
    assert dry.server.read(select(Checkpoint)) == []
    adapters = dry.server.read(select(Version.adapter).where(Version.run == RUN))
    assert adapters and set(adapters) == {None}
    assert run.best_version is None  # nothing was proven better


def test_it_takes_less_than_a_minute(dry: Dry) -> None:
    cores = os.cpu_count() or 1
    if dry.seconds >= 60 and os.getloadavg()[1] > cores:
        pytest.skip(f"{dry.seconds:.0f} s on a machine that others keep busy")
    assert dry.seconds < 60


@pytest.mark.parametrize("run", [RUN, CAPPED])
def test_every_figure_of_money_is_that_of_the_ledger(dry: Dry, run: str) -> None:
    account = f"run:{run}"
    (row,) = dry.server.read(select(Account).where(Account.id == account))
    of_account = LedgerEntry.account == account
    settled = dry.sum(run, LedgerEntry.amount, of_account, LedgerEntry.kind == "settle")
    assert row.model_settled == settled > 0 and row.model_reserved == row.model_uncertain == 0
    assert dry.sum(run, Reservation.actual, Reservation.run == run) == settled
    answered = (ModelCall.run == run, ModelCall.status == "answered")
    assert dry.sum(run, ModelCall.cost, *answered) == settled
    calls = dry.server.read(select(ModelCall).where(ModelCall.run == run))
    assert len(calls) == row.requests

    told = dry.get(f"{RUNS}/{run}/cost")
    spend = dry.get(f"{RUNS}/{run}")["spend"]
    assert micro(told["confirmed_usd"]) == micro(spend["model_usd"]) == settled
    assert micro(told["simulated_usd"]) == settled
    assert sum(micro(one["cost_usd"]) for one in told["calls"]) == settled
    assert sum(one["calls"] for one in told["calls"]) == told["requests"] == row.requests
    tokens = sum(call.usage.get("input_tokens", 0) for call in calls)
    assert sum(one["tokens_in"] or 0 for one in told["calls"]) == tokens
    assert told["uncertain_usd"] == told["reserved_usd"] == 0


def test_a_cap_ends_the_run_and_the_reason_has_the_exact_remainder(dry: Dry) -> None:
    run = dry.server.run(CAPPED)
    (account,) = dry.server.read(select(Account).where(Account.id == f"run:{CAPPED}"))
    assert run.state == "stopped" and account.model_settled <= 500
    assert run.reason and "model cap $0.0005" in run.reason and CAPPED in run.reason
    at = re.search(r"reached at (\$[0-9.]+) \+ (\$[0-9.]+) reserve", run.reason)
    assert at, run.reason
    used, asked = micro(float(at[1][1:])), micro(float(at[2][1:]))
    assert used <= 500 < used + asked
    # A smaller call may still have fitted in afterwards, so the end of the ledger tells nothing.
    assert used in dry.used_over_time(CAPPED) and f"{dollars(500 - used)} left" in run.reason
    assert dollars(500) == "$0.0005"


SAYS: dict[str, Any] = {
    f"{RUNS}": lambda body: all(one["simulated"] for one in body["items"]),
    f"{RUNS}/{RUN}": lambda body: (
        body["simulated"]
        and all(
            v["simulated"] and all(s["simulated"] for s in v["scores"]) for v in body["versions"]
        )
        and all(one["simulated"] for one in body["rounds"])
    ),
    f"{RUNS}/{RUN}?compact=true": lambda body: body["simulated"],
    f"{RUNS}/{RUN}/rounds": lambda body: all(one["simulated"] for one in body["items"]),
    f"{RUNS}/{RUN}/rounds/1": lambda body: body["simulated"],
    f"{RUNS}/{RUN}/live": lambda body: (
        body["simulated"] and "simulated" in body["events"][0]["text"]
    ),
    f"{RUNS}/{RUN}/cost": lambda body: (
        body["simulated"] and all(one["simulated"] for one in body["calls"])
    ),
    "/v1/job": lambda body: all(one["training"]["simulated"] for one in body["items"]),
    f"/v1/job/{RUN}-r1": lambda body: body["training"]["simulated"],
    f"/v1/job/{RUN}-r1/result": lambda body: body["simulated"],
    f"/v1/job/{RUN}-r1/logs": lambda body: body["simulated"],
    "/v1/billing/account": lambda body: body["simulated_usd"] == body["spent_usd"],
    f"/v1/billing/usage?{SPAN}": lambda body: is_simulated_money(body["items"]),
    f"/v1/billing/usage?{SPAN}&group_by=product": lambda body: is_simulated_money(body["items"]),
    f"/v1/billing/usage?{SPAN}&group_by=sku": lambda body: is_simulated_money(body["items"]),
    "/v1/billing/ledger": lambda body: all(one["simulated"] for one in body["items"]),
    "/v1/billing/prices": lambda body: all(one["simulated"] for one in body["items"]),
}


@pytest.mark.parametrize("path", SAYS)
def test_every_answer_with_a_figure_says_simulated(dry: Dry, path: str) -> None:
    body = dry.get(path)
    assert SAYS[path](body), body


def test_the_command_line_says_so_too(dry: Dry) -> None:
    first, *_, last = dry.followed.splitlines()
    assert "simulated" in first and "dry run" in first
    assert last == "state: finished"
    assert json.loads(dry.el("job", "run", "live", RUN))["simulated"] is True
    assert "dry round, nothing trained" in dry.el("job", "run", "get", RUN)


def test_every_page_of_the_console_says_so(dry: Dry) -> None:
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    link = str(call_admin(dry.server.home.admin_socket, "link"))
    browser.open(link, timeout=20).close()
    for path in [*(f"/runs/{RUN}?tab={tab}" for tab in TABS), "/"]:
        with browser.open(dry.server.url + path, timeout=20) as answer:
            page = answer.read().decode()
        assert RUN in page, path
        word = '"simulated":true' if path == "/" else '"text":"Simulated"'
        assert word in page.replace("&quot;", '"').replace('\\"', '"').replace('": ', '":'), path


def test_the_phases_that_train_and_decide_say_that_they_did_not(dry: Dry) -> None:
    steps = dry.server.read(select(Step).where(Step.run == RUN))
    texts = {(row.step, row.result.get("text")) for row in steps}
    assert ("train", "dry run, nothing trained") in texts
    assert ("gate", "not evaluated") in texts


def test_it_can_be_handed_on_as_a_cassette_that_says_simulated(dry: Dry, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "run.py"), "cassette", "export", RUN]
    given = environment_for(dry.server.home.path)
    done = subprocess.run(
        [*command, str(tmp_path / "dry.jsonl")],
        capture_output=True,
        text=True,
        env=given,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cassette = load(tmp_path / "dry.jsonl")
    assert cassette.rows["run"][0]["simulated"] is True
    assert len(cassette.rows["modelcall"]) == len(
        dry.server.read(select(ModelCall).where(ModelCall.run == RUN))
    )
    assert {one["text"] for one in cassette.rows["modelcall"]} == {None}


def micro(usd: float) -> int:
    """USD as the ledger counts."""
    return round(usd * 1_000_000)


def is_simulated_money(items: list[dict[str, Any]]) -> bool:
    """Whether all of a bill went to simulated models."""
    return bool(items) and all(one["amount_usd"] == one["simulated_usd"] for one in items)
