"""The rule of every benchmark: two sides, measured in turn by fresh processes in one run.

A pair is one measurement of each side; pairs alternate which side goes first. A ratio is the median
over the pairs with a bootstrap interval, and it passes when the whole interval reaches the goal.
Before anything is timed, both sides must have come to the same result. Every process computes with
one thread. Load and stolen time are told, and pairs that lie far apart are measured once more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PAIRS = 7
WIDEST_SPREAD = 0.25
RESAMPLES = 10_000
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}

Measured = dict[str, Any]  # what a side's process prints as its last line, in JSON


@dataclass(kw_only=True, slots=True, frozen=True)
class Side:
    """One way to do the thing: a command whose last line of output is a JSON object."""

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)
    seconds: float = 900.0  # it is ended, and the benchmark with it, when it takes longer

    def measure(self) -> Measured:
        """Run it once in a fresh process; BenchFailed when it fails or says nothing."""
        return last_line(self.command, self.env, self.seconds)


@dataclass(kw_only=True, slots=True, frozen=True)
class Goal:
    """What the ratio must reach, as "at least" or "at most" a figure."""

    at_least: float | None = None
    at_most: float | None = None

    def reached(self, low: float, high: float) -> bool:
        """Whether the whole interval lies on the right side."""
        if self.at_most is not None:
            return high <= self.at_most
        return low >= (self.at_least or 0.0)

    def __str__(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return f"at least {self.at_least:g}"


@dataclass(kw_only=True, slots=True, frozen=True)
class Ratio:
    """Ours over theirs: median and interval over the pairs, with what the machine did meanwhile."""

    ours: str
    theirs: str
    unit: str
    ours_median: float
    theirs_median: float
    ratio: float
    low: float
    high: float
    pairs: list[float]
    spread: float
    load: float
    steal: float
    repeated: bool
    goal: str
    passed: bool
    last: tuple[Measured, Measured]  # all that the sides told in the last pair

    def lines(self) -> list[str]:
        """The result as people read it."""
        verdict = "reached" if self.passed else "not reached"
        again = ", measured again because they lay apart" if self.repeated else ""
        return [
            f"{self.ours:28}{figure(self.ours_median):>12} {self.unit}",
            f"{self.theirs:28}{figure(self.theirs_median):>12} {self.unit}",
            f"{'ratio':28}{self.ratio:>12.2f}  [{self.low:.2f}, {self.high:.2f}]",
            f"{'goal ' + self.goal:28}{verdict:>12}",
            f"pairs {len(self.pairs)}, spread {100 * self.spread:.0f}%{again}",
            f"load {self.load:.1f}, stolen {100 * self.steal:.1f}%",
        ]


class BenchFailed(Exception):
    """A benchmark cannot say anything; the text tells why."""


def compare(
    ours: Side,
    theirs: Side,
    *,
    value: str,
    unit: str,
    goal: Goal,
    pairs: int,
    differ: Callable[[Measured, Measured], str | None],
    warm_up: bool = True,
    again: bool = True,
) -> Ratio:
    """Measure both sides in turn and compare `value` of what they print.

    `differ` says how two results differ, or None when they are equal. Sides that warm up inside
    their own process need no `warm_up` here; without `again` pairs that lie apart stay as they are.
    """
    if warm_up:
        check_equal(ours, theirs, ours.measure(), theirs.measure(), differ)
    began = cpu_times()
    results = _measure_pairs(ours, theirs, pairs, differ)
    ratios, repeated = _ratios(results, value), False
    if again and _spread(ratios) > WIDEST_SPREAD:
        say("The pairs lie far apart; measuring them once more.")
        results, repeated = _measure_pairs(ours, theirs, pairs, differ), True
        ratios = _ratios(results, value)
    low, high = bootstrap(ratios)
    return Ratio(
        ours=ours.name,
        theirs=theirs.name,
        unit=unit,
        ours_median=statistics.median(one[value] for one, _ in results),
        theirs_median=statistics.median(other[value] for _, other in results),
        ratio=statistics.median(ratios),
        low=low,
        high=high,
        pairs=ratios,
        spread=_spread(ratios),
        load=os.getloadavg()[0],
        steal=stolen(began, cpu_times()),
        repeated=repeated,
        goal=str(goal),
        passed=goal.reached(low, high),
        last=results[-1],
    )


def _measure_pairs(
    ours: Side,
    theirs: Side,
    pairs: int,
    differ: Callable[[Measured, Measured], str | None],
) -> list[tuple[Measured, Measured]]:
    results = []
    for number in range(pairs):
        if number % 2 == 0:
            one, other = ours.measure(), theirs.measure()
        else:
            other, one = theirs.measure(), ours.measure()
        check_equal(ours, theirs, one, other, differ)
        results.append((one, other))
        say(f"pair {number + 1} of {pairs}")
    return results


def check_equal(
    ours: Side,
    theirs: Side,
    one: Measured,
    other: Measured,
    differ: Callable[[Measured, Measured], str | None],
) -> None:
    """BenchFailed when the two sides did not do the same thing: then no time counts."""
    difference = differ(one, other)
    if difference is not None:
        raise BenchFailed(f"{ours.name} and {theirs.name} differ: {difference}")


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median by resampling, the same at every call."""
    random = Random(0)
    medians = sorted(
        statistics.median(random.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def same_texts(one: Measured, other: Measured) -> str | None:
    """How two sides differ that must have given the same texts."""
    for number, (ours, theirs) in enumerate(zip(one["came"], other["came"], strict=True)):
        if ours != theirs:
            return f"answer {number} is {ours!r} and {theirs!r}"
    return None


def last_line(command: Sequence[str], env: dict[str, str], seconds: float) -> Measured:
    """The JSON object that a fresh process prints last; it computes with one thread."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **ONE_THREAD, **env},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchFailed(f"{' '.join(command)} took more than {seconds:.0f} s") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise BenchFailed(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    result: Measured = json.loads(lines[-1])
    return result


def module(name: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """The command that runs a module of this folder in a Python of its own."""
    return [python, "-m", f"tests.bench.{name}", *arguments]


def cpu_times() -> list[int]:
    """The machine's CPU counters, empty where the system has none to read."""
    try:
        return [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    except OSError:
        return []


def stolen(before: list[int], after: list[int]) -> float:
    """The part of the machine's time that its host gave to others between two readings."""
    spent = [late - early for early, late in zip(before, after, strict=True)]
    total = sum(spent)
    return spent[7] / total if total and len(spent) > 7 else 0.0


def options(text: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(prog="run.py bench", description=text)
    parser.add_argument(
        "--pairs", type=int, default=PAIRS, metavar="N", help="default: %(default)s"
    )
    parser.add_argument("--quick", action="store_true", help="small and rough: shows that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there as well")
    return parser


def finish(name: str, args: argparse.Namespace, ratios: Sequence[Ratio], **more: Any) -> int:
    """Print results, write `--json`; 0 when every goal is reached."""
    for ratio in ratios:
        print("\n" + "\n".join(ratio.lines()))
    if args.quick or args.pairs < PAIRS:
        print(f"A claim needs {PAIRS} pairs at full size.")
    write_json(args.json, {"bench": name, "ratios": [asdict(ratio) for ratio in ratios], **more})
    return 0 if all(ratio.passed for ratio in ratios) else 1


def write_json(file: Path | None, value: dict[str, Any]) -> None:
    """Write a result where `--json` says, if it says."""
    if file is not None:
        file.write_text(json.dumps(value, indent=1) + "\n")


def run(main: Callable[[list[str]], int]) -> None:
    """Run a benchmark as a process: its exit code, 2 with a sentence when it cannot say anything."""
    try:
        sys.exit(main(sys.argv[1:]))
    except BenchFailed as failed:
        print(failed, file=sys.stderr)
        sys.exit(2)


def say(text: str) -> None:
    """A line about how far things are, apart from the result."""
    print(text, file=sys.stderr, flush=True)


def figure(value: float) -> str:
    """A number with as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratios(results: Sequence[tuple[Measured, Measured]], value: str) -> list[float]:
    return [one[value] / other[value] for one, other in results]


def _spread(ratios: Sequence[float]) -> float:
    return (max(ratios) - min(ratios)) / statistics.median(ratios)
