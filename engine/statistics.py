"""The numbers behind every claim that one version is better than another.

`compare` is what a gate reads. Scores are verdicts in [0, 1]; None is a missing verdict and enters
no mean. The module knows no splits, rounds or tables, and depends on the standard library alone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from engine.distributions import coin_tail, normal_z, student_t_quantile, student_t_tail

Scores = Mapping[str, float | None]

CONFIDENCE = 0.95  # of every interval

BINARY = "exact McNemar, Newcombe method 10"
FRACTIONAL = "paired t"
DEGENERATE = "sign test, score intervals"


@dataclass(kw_only=True, slots=True, frozen=True)
class Interval:
    """A range with a stated confidence; `low <= high`."""

    low: float
    high: float


@dataclass(kw_only=True, slots=True, frozen=True)
class Estimate:
    """A mean over `n` scores with its 95 % interval; `mean` is None when nothing was scored.

    `coverage` is the share of what was asked that has a score, None when nothing was asked.
    """

    mean: float | None
    low: float
    high: float
    n: int
    coverage: float | None


@dataclass(kw_only=True, slots=True, frozen=True)
class Paired:
    """A candidate beside the best so far, on the `n` keys that both have a score for.

    `best` and `candidate` carry the means over those common keys, and each its own coverage of all
    `asked` keys. `difference` is candidate minus best, `low` to `high` its 95 % interval, None,
    -1 and 1 when n is 0. `p_value` is one-sided (the candidate is better). `fixed` counts keys
    where the candidate scores higher, `regressed` where it scores lower. `conservative` is the
    difference over all asked keys with a missing score counted 0 for the candidate and 1 for the
    best. `method` says in words which test and interval were used.
    """

    n: int
    asked: int
    best: Estimate
    candidate: Estimate
    difference: float | None
    low: float
    high: float
    p_value: float
    p_two_sided: float
    fixed: int
    regressed: int
    coverage: float | None
    conservative: float | None
    method: str


def compare(best: Scores, candidate: Scores) -> Paired:
    """Compare two versions on common tasks; a key that only one mapping has is missing in the other.

    Scores of 0 and 1 alone get the exact McNemar test with Newcombe's interval. Anything between
    gets the paired t test with its interval, because its p-value is not bounded below by a number
    of resamples, which the shrinking alpha of late gates needs. Where t is undefined (one pair, or
    all differences equal) the exact sign test and score intervals stand in.
    A score outside [0, 1], NaN included, is a ValueError.
    """
    _refuse_odd_scores(best)
    _refuse_odd_scores(candidate)
    keys = sorted(set(best) | set(candidate))
    pairs = [
        (a, b)
        for a, b in ((best.get(key), candidate.get(key)) for key in keys)
        if a is not None and b is not None
    ]
    p_value, p_two_sided, interval, method = _test(pairs)
    return Paired(
        n=len(pairs),
        asked=len(keys),
        best=_side([a for a, _ in pairs], [best.get(key) for key in keys]),
        candidate=_side([b for _, b in pairs], [candidate.get(key) for key in keys]),
        difference=fmean(b - a for a, b in pairs) if pairs else None,
        low=interval.low,
        high=interval.high,
        p_value=p_value,
        p_two_sided=p_two_sided,
        fixed=sum(b > a for a, b in pairs),
        regressed=sum(b < a for a, b in pairs),
        coverage=_ratio(len(pairs), len(keys)),
        conservative=_conservative(best, candidate, keys),
        method=method,
    )


def estimate(scores: Iterable[float | None]) -> Estimate:
    """The mean of one version's scores with interval, n and coverage.

    The interval is Wilson's. For scores between 0 and 1 it is on the safe side, since no variable
    in [0, 1] varies more than a coin with the same mean.
    """
    asked = list(scores)
    found = [score for score in asked if score is not None]
    interval = wilson(sum(found), len(found))
    return Estimate(
        mean=fmean(found) if found else None,
        low=interval.low,
        high=interval.high,
        n=len(found),
        coverage=_ratio(len(found), len(asked)),
    )


# Tests


def mcnemar(fixed: int, regressed: int) -> tuple[float, float]:
    """Exact p-values, one-sided (the candidate is better) and two-sided, from the discordant pairs.

    McNemar, Psychometrika 12 (1947) 153-157, in its exact conditional form: under the null each
    discordant pair falls either way like a fair coin. Without discordant pairs both are 1.
    """
    _refuse_negative(fixed, regressed)
    better = coin_tail(fixed + regressed, fixed)
    worse = coin_tail(fixed + regressed, regressed)
    return better, min(1.0, 2 * min(better, worse))


def paired_t(differences: Sequence[float]) -> tuple[float, float, Interval]:
    """One-sided and two-sided p-value and 95 % interval of the mean difference (Student's t).

    Needs at least two differences that are not all equal, else ValueError.
    """
    n = len(differences)
    error = stdev(differences) / math.sqrt(n) if n > 1 else 0.0
    if error == 0.0:
        raise ValueError("the t test needs two differences that are not all equal")
    mean = fmean(differences)
    upper = student_t_tail(mean / error, n - 1)
    half = error * student_t_quantile(0.975, n - 1)
    interval = Interval(low=max(-1.0, mean - half), high=min(1.0, mean + half))
    return upper, 2 * min(upper, 1 - upper), interval


# Intervals


def wilson(successes: float, n: int) -> Interval:
    """Score interval for a proportion; 0 to 1 when n is 0.

    Wilson, Journal of the American Statistical Association 22 (1927) 209-212.
    """
    _refuse_negative(successes, n - successes)
    if n == 0:
        return Interval(low=0.0, high=1.0)
    z = normal_z(CONFIDENCE)
    share, room = successes / n, 1 + z * z / n
    centre = (share + z * z / (2 * n)) / room
    half = z / room * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the formula gives 0 and 1 exactly, but for the last bits of a float.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(low=low, high=high)


def newcombe(both: int, fixed: int, regressed: int, neither: int) -> Interval:
    """Interval for candidate minus best from the four counts of pairs; -1 to 1 without pairs.

    Hybrid score interval with continuity-corrected correlation, method 10 of Newcombe, Statistics
    in Medicine 17 (1998) 2635-2650.
    """
    _refuse_negative(both, fixed, regressed, neither)
    n = both + fixed + regressed + neither
    candidate, best = both + fixed, both + regressed
    margins = candidate * (n - candidate) * best * (n - best)
    cross = both * neither - fixed * regressed
    corrected = max(cross - n / 2, 0.0) if cross > 0 else cross
    correlation = corrected / math.sqrt(margins) if margins else 0.0
    return _hybrid(candidate, best, n, correlation)


# Planning


def alpha_for_gate(k: int, alpha: float = 0.05) -> float:
    """What the k-th gate of a run (from 1) may spend; over all gates the sum is `alpha`."""
    if k < 1:
        raise ValueError("gates are counted from 1")
    return alpha * 6 / (math.pi * k) ** 2


def half_width(n: int, discordance: float) -> float:
    """Expected half-width of the difference of n pairs, `discordance` the share that differs."""
    return normal_z(CONFIDENCE) * math.sqrt(discordance / n) if n else 1.0


def noise_floor(first: Scores, second: Scores) -> float | None:
    """How large a difference two runs of one and the same version show by chance alone.

    The half-width of the interval around no difference, with the spread seen between the two runs:
    0 when they agree everywhere, None when no key has a score in both.
    """
    _refuse_odd_scores(first)
    _refuse_odd_scores(second)
    squares = [
        (b - a) ** 2
        for a, b in ((first[key], second.get(key)) for key in first)
        if a is not None and b is not None
    ]
    return half_width(len(squares), fmean(squares)) if squares else None


# The pieces of `compare`


def _test(pairs: list[tuple[float, float]]) -> tuple[float, float, Interval, str]:
    """One-sided p, two-sided p, interval of the difference, and the name of the method."""
    # Rounded, so that 0.7 - 0.4 and 0.6 - 0.3 are one difference.
    differences = [round(b - a, 12) for a, b in pairs]
    fixed, regressed = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    if all(a in (0, 1) and b in (0, 1) for a, b in pairs):
        both = sum(a == b == 1 for a, b in pairs)
        neither = len(pairs) - both - fixed - regressed
        return *mcnemar(fixed, regressed), newcombe(both, fixed, regressed, neither), BINARY
    if len(set(differences)) > 1:
        return *paired_t(differences), FRACTIONAL
    candidate, best = sum(b for _, b in pairs), sum(a for a, _ in pairs)
    interval = _hybrid(candidate, best, len(pairs), 0.0)
    return *mcnemar(fixed, regressed), interval, DEGENERATE


def _side(common: list[float], own: list[float | None]) -> Estimate:
    """The mean over the common keys, with the version's own coverage of all keys."""
    found = estimate(common)
    coverage = _ratio(sum(score is not None for score in own), len(own))
    return Estimate(mean=found.mean, low=found.low, high=found.high, n=found.n, coverage=coverage)


def _conservative(best: Scores, candidate: Scores, keys: list[str]) -> float | None:
    if not keys:
        return None
    return fmean(_filled(candidate.get(key), 0.0) - _filled(best.get(key), 1.0) for key in keys)


def _hybrid(candidate: float, best: float, n: int, correlation: float) -> Interval:
    """Join the Wilson intervals of two dependent proportions into one for their difference."""
    if n == 0:
        return Interval(low=-1.0, high=1.0)
    p, q = candidate / n, best / n
    around_p, around_q = wilson(candidate, n), wilson(best, n)
    down = _join(p - around_p.low, around_q.high - q, correlation)
    up = _join(around_p.high - p, q - around_q.low, correlation)
    return Interval(low=max(-1.0, p - q - down), high=min(1.0, p - q + up))


def _join(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))


def _filled(score: float | None, missing: float) -> float:
    return missing if score is None else score


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _refuse_odd_scores(scores: Scores) -> None:
    for key, score in scores.items():
        if score is not None and not 0 <= score <= 1:
            raise ValueError(f"the score of {key} is {score}; scores lie between 0 and 1")


def _refuse_negative(*counts: float) -> None:
    if min(counts) < 0:
        raise ValueError(f"counts cannot be negative: {counts}")
