"""Killed at every named point and started again, a run ends as if nothing had happened."""

import re
import signal
import subprocess
from itertools import count, islice
from random import Random

import pytest

from data import crash
from tests.crash_trial import (
    ROOT,
    Forge,
    Trial,
    check,
    check_at_random,
    cut_an_answer_short,
    leave_running,
)

pytestmark = pytest.mark.timeout(1200)

MONEY = ("before_reserve", "in_reserve", "after_reserve", "after_send", "in_settle", "after_settle")
# What goes wrong with a remote model is killed in test_gateway_mass.py: these runs have none.
REMOTE = {"in_charge", "in_release", "before_retry"}
# How often these are passed hangs on the clock: killed at passes that surely come.
UNEVEN = {
    "before_commit": (1, 30, 60),
    "after_commit": (1, 25, 50),
    "in_lease_renew": (1, 2),
    "after_lease_renew": (1, 2),
    "before_controls": (1, 2, 3),
    "in_controls": (1, 2, 3),
    "after_controls": (1, 2, 3),
}
BY_PHASE = ("after_intent", "after_execute", "after_result")
PHASES = 11  # of prepare and one whole round

# The commit is there and nobody was told: the writer dies right after it.
UNTOLD = {
    "live": (
        *("in_recover#1", "in_door_run#1", "in_take_up#1", "in_round_begin#2", "in_intent#6"),
        *("in_record#7", "in_record#11", "in_rest#1", "in_rest#2", "in_controls#1"),
        *("in_lease_begin#3", "in_lease_end#4", "in_server_end#1"),
    ),
    "dry": ("in_reserve#30", "in_settle#60"),
}
# The next life dies as well, before it has done more than begin to recover, or soon after.
AGAIN = (
    Trial(kind="live", deaths=("in_record#7", "in_recover#1")),
    Trial(kind="live", deaths=("after_lease_begin#3", "in_recover#1,after_commit#1")),
    Trial(kind="live", deaths=("before_publish#1", "after_recover#1")),
    Trial(kind="live", deaths=("after_answers#9", "before_take_up#1")),
    Trial(kind="live", deaths=("in_rest#2", "in_take_up#1")),
    Trial(kind="live", deaths=("in_controls#1", "before_controls#1", "in_controls#1")),
    Trial(kind="dry", deaths=("after_send#40", "in_recover#1")),
    Trial(kind="dry", deaths=("after_reserve#20", "after_send#5", "after_recover#1")),
    Trial(kind="dry", deaths=("in_settle#70", "after_take_up#1", "in_intent#1")),
)
ORPHANED = (
    Trial(kind="live", deaths=("after_execute#6", "after_children#1", "after_children#1")),
    Trial(kind="live", deaths=("after_execute#4", "after_recover#1")),
)
CUT_SHORT = (
    Trial(kind="live", deaths=("before_answers#50",)),
    Trial(kind="dry", deaths=("after_answers#5",)),
)


@pytest.fixture(scope="module")
def forge():
    one = Forge()
    yield one
    one.close()
    print(f"{one.lives} lives, {one.deaths} deaths, {one.cpu_seconds:.0f} s of processor time")


@pytest.fixture(scope="module")
def golden(forge, tmp_path_factory):
    """What runs come to that nothing interrupts, and how often they pass each point."""
    ends = forge.map(lambda kind: forge.life(tmp_path_factory.mktemp(kind), kind), ("live", "dry"))
    assert [end["code"] for end in ends] == [0, 0], [end["complaint"] for end in ends]
    for end in ends:
        words = str(end["found"]["dump"])
        assert (
            "delivered" in words and "dropped" in words and "stopped by ann after round 2" in words
        )
    assert "promote" in str(ends[0]["found"]["dump"]["Round"])
    return {
        kind: end["found"] | {"seconds": end["seconds"]}
        for kind, end in zip(("live", "dry"), ends, strict=True)
    }


@pytest.fixture
def try_all(forge, golden, tmp_path):
    """Do trials two at a time, each on a home of its own; all that failed are told together."""

    def do(trials: list[Trial]) -> None:
        def one(numbered: tuple[int, Trial]) -> None:
            number, trial = numbered
            check(forge, tmp_path / str(number), trial, golden[trial.kind])

        failures = [failed for failed in forge.map(one, list(enumerate(trials))) if failed]
        if failures:
            pytest.fail("\n\n".join(map(str, failures)), pytrace=False)

    return do


@pytest.mark.parametrize("part", range(4))
def test_a_death_at_the_first_a_middle_and_the_last_pass_of_each_point(try_all, golden, part):
    """Each must come in a whole run, and kills: no listed point is left out."""
    trials = []
    for name in [one for one in crash.POINTS if one not in REMOTE][part::4]:
        kind = "dry" if name in MONEY else "live"
        last = golden[kind]["passes"].get(name, 0)
        assert last, f"a whole run never passes {name}"
        each = (last,) if name in BY_PHASE else (1, (last + 1) // 2, last)
        at = UNEVEN.get(name) or sorted(set(each))
        trials += [Trial(kind=kind, deaths=(f"{name}#{one}",)) for one in at]
    try_all(trials)


@pytest.mark.parametrize("name", BY_PHASE)
def test_a_death_at_each_boundary_of_each_phase(try_all, name):
    at = [f"{name}#{number}" for number in range(1, PHASES + 1)]
    try_all([Trial(kind="live", deaths=(one,)) for one in at])


def test_a_death_between_a_commit_and_its_answer(try_all):
    try_all(
        [
            Trial(kind=kind, deaths=(f"{at},after_commit#1",))
            for kind, points in UNTOLD.items()
            for at in points
        ]
    )


def test_a_death_during_recovery(try_all):
    try_all(list(AGAIN))


@pytest.mark.parametrize("trial", ORPHANED, ids=str)
def test_what_a_dead_server_left_running_is_ended_even_if_the_next_one_dies(
    forge, golden, tmp_path, trial
):
    left = []
    check(forge, tmp_path, trial, golden["live"], lambda home: left.append(leave_running(home)))
    assert left[0].wait(timeout=60) == -signal.SIGTERM


@pytest.mark.parametrize("trial", CUT_SHORT, ids=str)
def test_an_answer_cut_short_is_asked_again(forge, golden, tmp_path, trial):
    check(forge, tmp_path, trial, golden[trial.kind], cut_an_answer_short)


def test_every_point_is_in_the_code_and_listed():
    found = subprocess.run(
        ["grep", "-rhoE", r'crash\.point\("\w+"\)', "app", "data", "engine", "--include=*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert set(re.findall(r'"(\w+)"', found)) == set(crash.POINTS)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_two_hundred_deaths_at_random_moments(forge, golden, tmp_path):
    def one(number: int) -> int:
        kind = ("live", "dry")[number % 2]
        home, random = tmp_path / str(number), Random(number)
        return check_at_random(forge, home, kind, random, golden[kind])

    died, homes = 0, count()
    while died < 200:
        ends = forge.map(one, list(islice(homes, 4)))
        failures = [end for end in ends if isinstance(end, AssertionError)]
        if failures:
            pytest.fail("\n\n".join(map(str, failures)), pytrace=False)
        died += sum(ends)
