"""The statistics of the gate against scipy, published tables and simulations with fixed seeds."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from engine import distributions, statistics
from engine.statistics import Interval, compare

COUNTS = st.integers(min_value=0, max_value=80)


def scored(*runs: tuple[int, float | None]) -> dict[str, float | None]:
    """Scores by key from run lengths: scored((2, 1.0), (1, None)) has keys 0, 1 and 2."""
    flat = [score for count, score in runs for _ in range(count)]
    return {str(key): score for key, score in enumerate(flat)}


def table(both: int, fixed: int, regressed: int, neither: int) -> statistics.Paired:
    best = scored((both, 1.0), (fixed, 0.0), (regressed, 1.0), (neither, 0.0))
    candidate = scored((both, 1.0), (fixed, 1.0), (regressed, 0.0), (neither, 0.0))
    return compare(best, candidate)


# A comparison as the gate reads it


def test_a_better_candidate_is_shown_with_everything_that_a_gate_needs() -> None:
    found = table(both=100, fixed=30, regressed=10, neither=60)
    assert (found.n, found.asked, found.coverage) == (200, 200, 1.0)
    assert (found.fixed, found.regressed) == (30, 10)
    assert (found.best.mean, found.candidate.mean) == (0.55, 0.65)
    assert found.difference == pytest.approx(0.10)
    assert found.conservative == pytest.approx(0.10)
    assert 0 < found.low < 0.10 < found.high
    assert found.p_value == pytest.approx(stats.binomtest(30, 40, alternative="greater").pvalue)
    assert found.p_two_sided == pytest.approx(stats.binomtest(30, 40).pvalue)


def test_only_keys_that_both_have_a_score_for_are_compared() -> None:
    best = {"a": 1.0, "b": 0.0, "c": None, "d": 1.0}
    candidate = {"a": 1.0, "b": 1.0, "c": 1.0, "e": 1.0}
    found = compare(best, candidate)
    assert (found.n, found.asked) == (2, 5)
    assert (found.best.mean, found.candidate.mean, found.difference) == (0.5, 1.0, 0.5)
    assert (found.best.coverage, found.candidate.coverage, found.coverage) == (0.6, 0.8, 0.4)


def test_missing_scores_count_against_the_candidate_in_the_conservative_difference() -> None:
    best = scored((50, 1.0), (47, 0.0), (3, None))
    candidate = scored((57, 1.0), (41, 0.0), (2, None))
    found = compare(best, candidate)
    assert found.difference == pytest.approx(7 / 97)
    assert found.conservative == pytest.approx(0.57 - 0.53)


@pytest.mark.parametrize("scores", [{}, scored((5, None))])
def test_nothing_scored_claims_nothing(scores: dict[str, float | None]) -> None:
    found = compare(scores, scores)
    assert (found.n, found.difference, found.p_value, found.p_two_sided) == (0, None, 1.0, 1.0)
    assert (found.low, found.high) == (-1.0, 1.0)
    assert (found.best.mean, found.best.low, found.best.high) == (None, 0.0, 1.0)
    assert found.coverage == (0.0 if scores else None)
    assert found.conservative == (-1.0 if scores else None)


def test_equal_versions_show_no_difference_but_keep_an_honest_interval() -> None:
    found = table(both=60, fixed=0, regressed=0, neither=40)
    assert (found.difference, found.p_value, found.p_two_sided) == (0.0, 1.0, 1.0)
    assert -0.15 < found.low < 0 < found.high < 0.15


@pytest.mark.parametrize("score", [1.5, -0.1, math.nan])
def test_a_score_outside_zero_and_one_is_refused_by_key(score: float) -> None:
    with pytest.raises(ValueError, match="score of task-7"):
        compare({"task-7": 1.0}, {"task-7": score})


# Scores between 0 and 1


def test_fractional_scores_are_tested_like_scipy_tests_pairs() -> None:
    random = Random(4)
    best = {str(i): random.choice((0.0, 0.25, 0.5)) for i in range(120)}
    steps = {key: random.choice((-0.25, 0.25, 0.25, 0.5)) for key in best}
    candidate = {key: min(1.0, max(0.0, score + steps[key])) for key, score in best.items()}
    found = compare(best, candidate)
    reference = stats.ttest_rel(list(candidate.values()), list(best.values()))
    greater = stats.ttest_rel(list(candidate.values()), list(best.values()), alternative="greater")
    interval = reference.confidence_interval(0.95)
    assert found.p_value == pytest.approx(greater.pvalue, rel=1e-6)
    assert found.p_two_sided == pytest.approx(reference.pvalue, rel=1e-6)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert "t" in found.method.split()


@pytest.mark.parametrize(("n", "p_value"), [(1, 0.5), (3, 0.125)])
def test_too_little_spread_for_t_falls_back_on_signs(n: int, p_value: float) -> None:
    best = {str(i): 0.3 + i / 10 for i in range(n)}
    found = compare(best, {key: score + 0.3 for key, score in best.items()})
    assert found.p_value == p_value
    assert found.difference == pytest.approx(0.3)
    assert found.low < 0 < found.high < 1


# Published examples


def test_newcombe_matches_published_intervals() -> None:
    """Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables (2017), chapter 8:
    complete response before and after therapy, and airway hyper-responsiveness."""
    cavo, bentur = statistics.newcombe(59, 6, 16, 80), statistics.newcombe(1, 1, 7, 12)
    assert (cavo.low, cavo.high) == pytest.approx((-0.1186, -0.0046), abs=5e-5)
    assert (bentur.low, bentur.high) == pytest.approx((-0.507, -0.026), abs=5e-4)
    assert statistics.mcnemar(6, 16)[1] == pytest.approx(0.052479, abs=5e-7)


def test_wilson_matches_a_published_interval() -> None:
    """Newcombe, Statistics in Medicine 17 (1998) 857-872, table I: 81 of 263."""
    found = statistics.wilson(81, 263)
    assert (found.low, found.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)


@pytest.mark.parametrize(
    ("n", "points"),
    [
        (60, (12.7, 9.8)),
        (100, (9.8, 7.6)),
        (200, (6.9, 5.4)),
        (500, (4.4, 3.4)),
        (1000, (3.1, 2.4)),
    ],
)
def test_half_widths_in_points(n: int, points: tuple[float, ...]) -> None:
    widths = [statistics.half_width(n, d) for d in (0.25, 0.15)]
    assert [round(100 * value, 1) for value in widths] == list(points)


def test_no_defect_in_as_many_rows_as_admission_checks_means_at_most_five_percent() -> None:
    assert 0.95**59 <= 0.05 < 0.95**58


def test_gates_share_one_alpha() -> None:
    assert statistics.alpha_for_gate(1) == pytest.approx(0.0303963551)
    assert statistics.alpha_for_gate(2) == pytest.approx(statistics.alpha_for_gate(1) / 4)
    assert sum(statistics.alpha_for_gate(k) for k in range(1, 100_000)) < 0.05
    with pytest.raises(ValueError, match="from 1"):
        statistics.alpha_for_gate(0)


# Against scipy, over many counts


@settings(deadline=None, derandomize=True)
@given(COUNTS, COUNTS)
def test_wilson_agrees_with_scipy(hits: int, misses: int) -> None:
    n = hits + misses
    if n == 0:
        assert statistics.wilson(0, 0) == Interval(low=0.0, high=1.0)
        return
    reference = stats.binomtest(hits, n).proportion_ci(method="wilson")
    found = statistics.wilson(hits, n)
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=1e-9)


@settings(deadline=None, derandomize=True)
@given(COUNTS, COUNTS)
def test_mcnemar_agrees_with_scipy(fixed: int, regressed: int) -> None:
    m = fixed + regressed
    one, two = statistics.mcnemar(fixed, regressed)
    if m == 0:
        assert (one, two) == (1.0, 1.0)
        return
    greater = stats.binomtest(fixed, m, alternative="greater").pvalue
    assert one == pytest.approx(greater, rel=1e-9)
    assert two == pytest.approx(stats.binomtest(fixed, m).pvalue, rel=1e-9)


@pytest.mark.parametrize("degrees", [1, 2, 7, 59, 999, 20_000])
def test_student_t_agrees_with_scipy(degrees: int) -> None:
    for t in (-4.0, -0.3, 0.0, 0.7, 1.96, 12.0):
        expected = stats.t.sf(t, degrees)
        assert distributions.student_t_tail(t, degrees) == pytest.approx(expected, rel=1e-9)
    quantile = distributions.student_t_quantile(0.975, degrees)
    assert quantile == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-9)


@settings(deadline=None, derandomize=True)
@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_newcombe_stays_in_range_around_the_difference_and_mirrors_when_versions_swap(
    both: int, fixed: int, regressed: int, neither: int
) -> None:
    n = both + fixed + regressed + neither
    found = statistics.newcombe(both, fixed, regressed, neither)
    swapped = statistics.newcombe(both, regressed, fixed, neither)
    assert -1 <= found.low <= found.high <= 1
    assert (found.low, found.high) == pytest.approx((-swapped.high, -swapped.low), abs=1e-12)
    if n:
        assert found.low - 1e-12 <= (fixed - regressed) / n <= found.high + 1e-12


# What the promises are worth under the null


def test_a_candidate_that_is_no_better_is_rarely_called_better() -> None:
    """The exact test errs in at most 5 % of 4,000 gates, with versions that differ on 20 %."""
    random = Random(11)
    wrong = 0
    for _ in range(4_000):
        discordant = sum(random.random() < 0.2 for _ in range(100))
        fixed = sum(random.random() < 0.5 for _ in range(discordant))
        wrong += statistics.mcnemar(fixed, discordant - fixed)[0] <= 0.05
    assert 0.01 < wrong / 4_000 <= 0.05


def test_the_fractional_test_keeps_its_error_rate_too() -> None:
    """Averages of four attempts at the same skill: at most 5 % of 2,000, within sampling error."""
    random = Random(12)
    wrong = 0
    for _ in range(2_000):
        skill = [random.random() for _ in range(60)]
        wrong += compare(four_tries(skill, random), four_tries(skill, random)).p_value <= 0.05
    assert 0.02 < wrong / 2_000 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 2_000)


def four_tries(skill: list[float], random: Random) -> dict[str, float]:
    return {
        str(task): sum(random.random() < chance for _ in range(4)) / 4
        for task, chance in enumerate(skill)
    }


def test_newcombe_covers_the_true_difference() -> None:
    """At least 94 % of 3,000 intervals for a true gain of 8 points on 150 pairs hold it."""
    random = Random(13)
    covered = 0
    for _ in range(3_000):
        counts = [0, 0, 0, 0]
        for cell in random.choices(range(4), weights=(45, 14, 6, 35), k=150):
            counts[cell] += 1
        found = statistics.newcombe(*counts)
        covered += found.low <= 0.08 <= found.high
    assert 0.94 <= covered / 3_000 <= 0.98


# The noise of the instrument


def test_two_runs_of_one_version_give_the_noise_floor() -> None:
    first = scored((60, 1.0), (40, 0.0))
    second = scored((55, 1.0), (5, 0.0), (4, 1.0), (36, 0.0))
    assert statistics.noise_floor(first, first) == 0.0
    expected = statistics.half_width(100, 0.09)
    assert statistics.noise_floor(first, second) == pytest.approx(expected)
    assert statistics.noise_floor(first, scored((100, None))) is None


def test_the_noise_floor_holds_nearly_all_differences_of_noise_alone() -> None:
    random = Random(14)
    within = 0
    for _ in range(500):
        skill = [random.choice((0.1, 0.5, 0.95)) for _ in range(200)]
        runs = [{str(i): float(random.random() < s) for i, s in enumerate(skill)} for _ in range(3)]
        floor = statistics.noise_floor(runs[0], runs[1])
        difference = compare(runs[1], runs[2]).difference
        assert floor is not None and difference is not None
        within += abs(difference) <= floor
    assert within / 500 >= 0.92
