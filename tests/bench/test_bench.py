"""The benchmarks: they keep their own rule, they run, and their goals hold."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.bench import harness, wall
from tests.bench.harness import BenchFailed, Goal, Measured, Ratio, Side, compare
from tests.instance import instance
from tests.server.process import environment_for

pytestmark = pytest.mark.timeout(900)

LONG = os.environ.get("PAWL_LONG") == "1"
ROOT = harness.ROOT


def side(name: str, code: str) -> Side:
    return Side(name=name, command=[sys.executable, "-S", "-c", f"import json, os; {code}"])


def same(one: Measured, other: Measured) -> str | None:
    return None if one["did"] == other["did"] else f"did {one['did']} and {other['did']}"


def raced(ours: Side, theirs: Side, goal: Goal, pairs: int = 3) -> Ratio:
    return compare(ours, theirs, value="rate", unit="/s", goal=goal, pairs=pairs, differ=same)


def test_pairs_alternate_after_a_discarded_warm_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    told = "print(json.dumps({'did': 1, 'rate': %s}))"
    noted = f"open({str(log)!r}, 'a').write('%s'); {told}"
    ratio = raced(
        side("ours", noted % ("a", 6)), side("theirs", noted % ("b", 2)), Goal(at_least=3)
    )
    assert log.read_text() == "ab" + "ab" + "ba" + "ab"
    assert (ratio.ratio, ratio.low, ratio.high, ratio.passed) == (3.0, 3.0, 3.0, True)
    assert "goal at least 3" in "\n".join(ratio.lines())


def test_a_side_that_did_something_else_is_no_result() -> None:
    ours = side("ours", "print(json.dumps({'did': 1, 'rate': 9}))")
    theirs = side("theirs", "print(json.dumps({'did': 2, 'rate': 1}))")
    with pytest.raises(BenchFailed, match="ours and theirs differ: did 1 and 2"):
        raced(ours, theirs, Goal(at_least=1))


def test_a_side_computes_with_one_thread_and_its_failure_is_told() -> None:
    told = side("ours", "print(json.dumps({'threads': os.environ['OMP_NUM_THREADS']}))").measure()
    assert told == {"threads": "1"}
    with pytest.raises(BenchFailed, match="no such thing"):
        side("ours", "raise SystemExit('no such thing')").measure()


def test_pairs_that_lie_apart_are_measured_once_more(tmp_path: Path) -> None:
    count = tmp_path / "count"
    code = (
        f"n = os.path.getsize({str(count)!r}); open({str(count)!r}, 'a').write('x'); "
        "print(json.dumps({'did': 1, 'rate': 1 + n if n < 4 else 8}))"
    )
    count.touch()
    theirs = side("theirs", "print(json.dumps({'did': 1, 'rate': 2}))")
    ratio = raced(side("ours", code), theirs, Goal(at_least=3))
    assert ratio.repeated and ratio.pairs == [4.0, 4.0, 4.0] and ratio.spread == 0


def test_an_interval_must_lie_on_the_goals_side_as_a_whole() -> None:
    random = Random(3)
    low, high = harness.bootstrap([random.gauss(2, 0.3) for _ in range(15)])
    assert 1.6 < low < 2 < high < 2.4
    assert Goal(at_least=low).reached(low, high) and not Goal(at_least=2).reached(low, high)
    assert Goal(at_most=high).reached(low, high) and not Goal(at_most=2).reached(low, high)


def bench(
    tmp_path: Path,
    name: str,
    *arguments: str,
    seconds: float = 280,
    in_time: Callable[[dict[str, Any]], bool] = bool,
) -> dict[str, Any]:
    """What `run.py bench NAME` writes as JSON: the first of three that is in time, else the last.

    A short measurement beside other tests may meet a moment in which the machine stands still.
    """
    for _ in range(1 if LONG else 3):
        found = bench_once(tmp_path, name, *arguments, seconds=seconds)
        if in_time(found):
            break
    return found


def bench_once(tmp_path: Path, name: str, *arguments: str, seconds: float) -> dict[str, Any]:
    """What one measurement writes."""
    file = tmp_path / "bench.json"
    command = [sys.executable, str(ROOT / "run.py"), "bench", name, "--json", str(file)]
    done = subprocess.run(
        [*command, *arguments],
        env=environment_for(tmp_path / "home"),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_the_feed_makes_events_durable_many_times_faster_than_one_by_one(tmp_path: Path) -> None:
    rough = [] if LONG else ["--quick", "--pairs", "3"]

    def in_time(found: dict[str, Any]) -> bool:
        (ratio,) = found["ratios"]
        return bool((ratio["low"] if LONG else ratio["ratio"]) >= (20 if LONG else 10))

    found = bench(tmp_path, "feed", *rough, in_time=in_time)
    assert in_time(found), found


def test_the_first_page_comes_within_twice_a_bare_page(tmp_path: Path) -> None:
    rough = [] if LONG else ["--quick", "--pairs", "3"]

    def in_time(found: dict[str, Any]) -> bool:
        (ratio,) = found["ratios"]
        # With few pairs on a busy machine there is room for chance.
        return bool((ratio["high"] if LONG else ratio["ratio"]) <= (2.0 if LONG else 2.4))

    found = bench(tmp_path, "startup", *rough, in_time=in_time)
    assert in_time(found), found


def test_clients_that_follow_a_busy_run_see_all_of_it_in_time(tmp_path: Path) -> None:
    def in_time(found: dict[str, Any]) -> bool:
        # Short, and beside other tests: room for chance.
        seen = found["events"] >= 50 * (found["seconds"] - 3)
        return bool(seen and found["p95"] <= (50 if LONG else 1000))

    found = bench(
        tmp_path,
        "live",
        *([] if LONG else ["--quick"]),
        in_time=lambda found: bool(found["errors"]) or in_time(found),
    )
    assert found["errors"] == [] and found["answers"] >= 25 * found["seconds"] / 3
    assert in_time(found), found


def test_the_budget_check_stays_quick_however_long_the_ledger_is(tmp_path: Path) -> None:
    def in_time(found: dict[str, Any]) -> bool:
        # One pair on a busy machine says little: enough that the check does not search the ledger.
        after, new = (side["p50_ms"] for side in found["last"])
        return bool(after <= max(4 * new, 30))

    rough = [] if LONG else ["--quick", "--pairs", "1"]
    found = bench(tmp_path, "ledger", *rough, in_time=in_time)
    (ratio,) = found["ratios"]
    if LONG:
        assert found["p95_ms"] <= 10 and ratio["high"] <= 1.5, found
    assert in_time(found), found


def test_the_wall_table_tells_where_a_rounds_time_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with instance(tmp_path) as pawl:
        pawl.start("a", rounds=1)
        pawl.engine.start()
        pawl.wait("a")
    file = tmp_path / "wall.json"
    assert wall.main(["--home", str(tmp_path), "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "Run a" in shown and "In all" in shown
    parts = json.loads(file.read_text())["parts"]
    worked = {(part["phase"], part["part"]) for part in parts if part["rows"]}
    answered = ("prepare", "diagnose", "collect", "develop")
    assert worked >= {*((phase, "answers") for phase in answered), ("train", "steps")}
    assert all(part["seconds"] >= 0 for part in parts)
    with pytest.raises(BenchFailed, match="has no run b"):
        wall.main(["--home", str(tmp_path), "--run", "b"])


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_our_training_step_outruns_trl_at_the_same_loss(tmp_path: Path) -> None:
    """Makes TRL's environment where there is none yet, which needs the network."""
    found = bench(tmp_path, "train", "--quick", "--pairs", "1", seconds=1700)
    first, _ = found["ratios"]
    assert first["ratio"] >= 1.5, found
    ours, theirs = found["losses"][0]
    assert abs(ours - theirs) <= 0.01 * theirs


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_batches_and_label_reads_outrun_one_at_a_time_with_the_same_outcome(tmp_path: Path) -> None:
    """The endpoint's part is measured where PAWL_VLLM names a Python that has vLLM."""
    found = bench(tmp_path, "rollout", "--quick", "--pairs", "1", seconds=1700)
    answers, labels, *endpoint = found["ratios"]
    assert answers["ratio"] >= 4 and labels["ratio"] >= 5, found  # small batches gain less
    assert len(endpoint) == bool(os.environ.get("PAWL_VLLM"))
    assert all(one["ratio"] <= 1.5 for one in endpoint), found  # four short chats: room for chance
