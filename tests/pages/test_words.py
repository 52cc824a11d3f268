"""Figures read as the look asks: decimals, signs, dashes, intervals."""

import pytest

from app.shapes import Interval
from pages import states, words


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (words.score(0.4287), "0.429"),
        (words.score(None), "—"),
        (words.signed(0.118), "+0.118"),
        (words.signed(-0.008), "−0.008"),
        (words.signed(0.0001), "±0.000"),
        (words.signed(-0.0001), "±0.000"),
        (words.signed(None), "—"),
        (words.interval(0.3681, 0.4922), "0.368–0.492"),
        (words.interval(-0.031, 0.056), "−0.031 to 0.056"),
        (words.interval(None, 0.056), "—"),
        (words.span(0.072, 0.165), "0.072 to 0.165"),
        (words.percent(1.0), "100%"),
        (words.percent(0.995), "99.5%"),
        (words.percent(0.0), "0%"),
        (words.percent(None), "—"),
        (words.usd(1.05), "$1.05"),
        (words.usd(12345.678), "$12,345.68"),
        (words.usd(0.0), "$0.00"),
        (words.usd(None), "—"),
        (words.count(1840), "1,840"),
        (words.count(0), "0"),
        (words.count(None), "—"),
        (words.duration(46), "46 s"),
        (words.duration(73), "1 min 13 s"),
        (words.duration(1200), "20 min"),
        (words.duration(7500), "2 h 5 min"),
        (words.duration(None), "—"),
        (words.size(812), "812 B"),
        (words.size(9_800_000), "9.8 MB"),
        (words.size(999_950_000), "1.0 GB"),
        (words.short_hash("7c1e90ab11"), "7c1e 90ab"),
        (words.one_line({"sums": 280, "products": 120}), "sums 280, products 120"),
        (words.one_line(True), "yes"),
        (words.one_line([]), "—"),
    ],
)
def test_figures_read_as_the_look_asks(shown: str, expected: str) -> None:
    assert shown == expected


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [(0.01, 0.2, True), (-0.2, -0.01, True), (-0.01, 0.2, False), (0.0, 0.1, False)],
)
def test_only_an_interval_beside_zero_tells_a_change(low: float, high: float, told: bool) -> None:
    assert words.excludes_zero(Interval(mean=0.1, low=low, high=high)) is told


def test_an_unknown_interval_tells_nothing() -> None:
    assert not words.excludes_zero(None)
    assert not words.excludes_zero(Interval(mean=0.5, low=None, high=None))


@pytest.mark.parametrize(
    "status", ["queued", "running", "cancelling", "completed", "failed", "cancelled"]
)
def test_every_state_of_a_job_has_a_sign_of_its_own(status: str) -> None:
    assert states.of(states.JOBS, status).icon != states.UNKNOWN_ICON
