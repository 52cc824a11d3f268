"""The gate's decisions, each for the reason that it states."""

import pytest

from engine.gate import Rule, decide
from engine.statistics import compare
from engine.types import as_dict

RULE = Rule(alpha=0.03, min_gain=0.02, noise=0.0, tolerance=0.05)
APPROVED = [{"type": "data_leakage", "verdict": "approved", "text": "0 collisions"}]


def paired(both: int, fixed: int, regressed: int, neither: int, missing: int = 0) -> dict:
    """Figures of a comparison with these counts of pairs; `missing` have no candidate verdict."""
    pairs = [(1, 1)] * both + [(0, 1)] * fixed + [(1, 0)] * regressed + [(0, 0)] * neither
    pairs += [(0, None)] * missing
    best = {str(i): float(a) for i, (a, _) in enumerate(pairs)}
    candidate = {str(i): None if b is None else float(b) for i, (_, b) in enumerate(pairs)}
    return as_dict(compare(best, candidate))


SAME = paired(80, 2, 2, 36)
CLEAR = paired(10, 50, 2, 58)


def test_a_clear_gain_with_everything_in_order_is_promoted():
    decision, reason, checks = decide(CLEAR, {"guard": SAME, "held_out": SAME}, APPROVED, RULE)
    assert decision == "promote" and "+40.0 points" in reason
    assert all(check.ok for check in checks)


@pytest.mark.parametrize(
    ("blind", "elsewhere", "audits", "decision", "words"),
    [
        (paired(5, 45, 0, 40), {}, APPROVED, "inconclusive", "at least 100"),
        (paired(10, 50, 2, 55, missing=3), {}, APPROVED, "inconclusive", "coverage"),
        (paired(30, 6, 2, 82), {}, APPROVED, "inconclusive", "significance"),
        (paired(30, 2, 9, 79), {}, APPROVED, "reject", "gain"),
        (paired(30, 0, 0, 90), {}, APPROVED, "reject", "gain"),
        (CLEAR, {"guard": paired(60, 2, 20, 38)}, APPROVED, "reject", "guard"),
        (CLEAR, {"held_out": paired(60, 2, 20, 38)}, APPROVED, "reject", "held-out"),
        (CLEAR, {"guard": paired(40, 0, 0, 9)}, APPROVED, "inconclusive", "guard"),
    ],
)
def test_anything_less_is_not_promoted_and_says_why(blind, elsewhere, audits, decision, words):
    found, reason, _ = decide(blind, elsewhere, audits, RULE)
    assert (found, words in reason) == (decision, True), reason


@pytest.mark.parametrize(
    ("verdict", "decision"), [("rejected", "reject"), ("error", "inconclusive")]
)
def test_an_audit_that_rejects_or_errors_stops_the_best_gain(verdict, decision):
    audits = [*APPROVED, {"type": "score_coverage", "verdict": verdict, "text": "why"}]
    found, reason, _ = decide(CLEAR, {}, audits, RULE)
    assert found == decision and "score_coverage" in reason


def test_a_drop_within_the_tolerance_or_the_noise_is_no_regression():
    for figures in (paired(115, 0, 5, 0), paired(50, 15, 22, 33)):
        assert decide(CLEAR, {"guard": figures}, APPROVED, RULE)[0] == "promote"


def test_a_gain_below_the_measured_noise_is_not_proven():
    rule = Rule(alpha=0.03, min_gain=0.02, noise=0.5, tolerance=0.05)
    assert decide(CLEAR, {}, APPROVED, rule)[0] != "promote"


def test_a_missing_verdict_counts_against_the_candidate_in_the_conservative_figure():
    figures = paired(50, 12, 2, 54, missing=2)
    assert figures["conservative"] < figures["difference"]
    assert figures["candidate"]["mean"] == pytest.approx(62 / 118)
