"""Verdicts a minute: the warm pool against a container a case, and against an exec a case.

All judge the same cases on as many cores; the slower ways judge a sample of them. Before that, all
cases that crash, never end or take too much must have the same verdict in the pool and in a
container of their own. A last line says how long 200 checks in the manner of HumanEval take.
"""

import json
import os

from tests.bench.harness import (
    BenchFailed,
    Goal,
    Measured,
    Ratio,
    Side,
    compare,
    finish,
    module,
    options,
    run,
    say,
)
from tests.bench.sandbox_cases import checks, hard, small
from tests.bench.sandbox_ways import WAYS, judge_all

COUNTS = {"pool": 500, "container": 40, "exec": 100}
QUICK = {"pool": 100, "container": 6, "exec": 15}
NAMES = {"pool": "warm pool", "container": "a container a case", "exec": "docker exec a case"}
GOALS = {"container": Goal(at_least=40.0), "exec": Goal(at_least=10.0)}
CHECKS, CHECKS_SECONDS = 200, 60.0
MOST_CORES = 2


def main(argv: list[str]) -> int:
    """Compare and print; 0 when every goal is reached."""
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--side", choices=sorted(WAYS), help="measure one side alone")
    args = parser.parse_args(argv)
    counts = QUICK if args.quick else COUNTS
    if args.side:
        print(json.dumps(measure(args.side, counts[args.side])))
        return 0
    alike = check_hard_cases()
    seconds = time_checks()
    ratios = [against(other, args.pairs, args.quick) for other in GOALS]
    reached = seconds <= CHECKS_SECONDS
    print(f"{alike} hard cases judged alike; {CHECKS} checks in {seconds:.1f} s on {cores()} cores")
    code = finish("sandbox", args, ratios, checks_seconds=seconds, hard_cases=alike)
    return code if reached else 1


def cores() -> int:
    """How many cases are judged at once: as many as two cores allow."""
    return min(MOST_CORES, len(os.sched_getaffinity(0)))


def measure(name: str, count: int) -> Measured:
    """Judge the first `count` cases in one of the ways."""
    seconds, verdicts = judge_all(name, small(count), cores())
    return {"per_minute": 60 * count / seconds, "verdicts": verdicts}


def against(other: str, pairs: int, quick: bool) -> Ratio:
    """The pool against one of the other ways."""
    more = ["--quick"] if quick else []
    ours, theirs = (
        Side(name=NAMES[name], command=module("sandbox", "--side", name, *more))
        for name in ("pool", other)
    )
    return compare(
        ours,
        theirs,
        value="per_minute",
        unit="verdicts/min",
        goal=GOALS[other],
        pairs=pairs,
        differ=differ,
        warm_up=False,
        again=not quick,
    )


def differ(one: Measured, other: Measured) -> str | None:
    """Both must say the same of the cases that both have judged."""
    for number, (ours, theirs) in enumerate(zip(one["verdicts"], other["verdicts"], strict=False)):
        if ours != theirs:
            return f"case {number} is {ours} and {theirs}"
    scores = {score for score, _ in one["verdicts"]}
    return None if scores == {0.0, 1.0} else f"the scores are {scores}, not right and wrong"


def check_hard_cases() -> int:
    """How many cases that are hard on a container were judged alike by the pool and by one each."""
    asked = hard()
    _, ours = judge_all("pool", asked, cores())
    _, theirs = judge_all("container", asked, cores())
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one[0] != other[0]:
            raise BenchFailed(f"hard case {number} is {one} in the pool, {other} in a container")
    say(f"{len(asked)} hard cases judged alike")
    return len(asked)


def time_checks() -> float:
    """Seconds for 200 checks, each a function with its asserts, in the pool."""
    seconds, verdicts = judge_all("pool", checks(CHECKS), cores())
    if any(score != 1.0 for score, _ in verdicts):
        raise BenchFailed("a check of right code was not passed")
    return seconds


if __name__ == "__main__":
    run(main)
