"""Tails of the distributions that statistics.py tests with, in the standard library alone."""

import math
from collections.abc import Callable
from statistics import NormalDist


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b) for a, b > 0, to about 1e-12."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    # The continued fraction converges fast on one side of the mean only; the other mirrors it.
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_front += a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) * _beta_fraction(a, b, x) / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction 26.5.8 of Abramowitz and Stegun (1964), evaluated by Lentz's method."""
    tiny = 1e-300
    d = 1 / (1 - (a + b) * x / (a + 1) or tiny)
    value, c = d, 1.0
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            value *= c * d
        if abs(value - before) <= 1e-15 * abs(value):
            break
    return value


def student_t_tail(t: float, degrees: int) -> float:
    """P(T >= t) of Student's t with the given degrees of freedom."""
    tail = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2
    return tail if t >= 0 else 1 - tail


def student_t_quantile(share: float, degrees: int) -> float:
    """The t with P(T <= t) = share, for a share above one half."""
    # I_x falls to 2 (1 - share) at x = degrees / (degrees + t * t).
    x = solve_rising(lambda x: incomplete_beta(degrees / 2, 0.5, x), 2 * (1 - share))
    return math.sqrt(degrees * (1 - x) / x)


def solve_rising(rising: Callable[[float], float], target: float) -> float:
    """The x in [0, 1] where a rising function reaches the target, by bisection."""
    low, high = 0.0, 1.0
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        low, high = (middle, high) if rising(middle) < target else (low, middle)


def coin_tail(n: int, k: int) -> float:
    """P(X >= k) for the number of heads in n fair tosses, in exact integers until the division."""
    term, total = 1, 0
    for heads in range(n, k - 1, -1):
        total += term
        term = term * heads // (n - heads + 1)
    return total / (1 << n)


def normal_z(confidence: float) -> float:
    """The z within which a standard normal lies with the given confidence."""
    return NormalDist().inv_cdf((1 + confidence) / 2)
