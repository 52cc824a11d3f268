"""The gate: from paired figures and audits to promote, reject or inconclusive, with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COVERAGE = 0.98
LEAST_N = 100  # fewer blind tasks support no claim


@dataclass(kw_only=True, slots=True, frozen=True)
class Rule:
    """What this run's gate asks for: alpha of this gate, least gain, tolerated drop elsewhere."""

    alpha: float
    min_gain: float
    noise: float
    tolerance: float


@dataclass(kw_only=True, slots=True, frozen=True)
class Check:
    """One rule of the gate: `ok`, and the decision that it forces when it is not."""

    name: str
    ok: bool
    text: str
    otherwise: str  # reject | inconclusive


def decide(
    blind: Mapping[str, Any],
    elsewhere: Mapping[str, Mapping[str, Any]],
    audits: Sequence[Mapping[str, Any]],
    rule: Rule,
) -> tuple[str, str, list[Check]]:
    """Decision, reason, and every check. `elsewhere` holds held_out and guard figures.

    All figures are those of statistics.compare. Promote needs every check; the first failing check
    that says reject decides, else the first that says inconclusive.
    """
    checks = [
        *_sound(blind),
        _audits(audits),
        *(_no_regression(name, figures, rule) for name, figures in elsewhere.items()),
        *_better(blind, rule),
    ]
    failed = [check for check in checks if not check.ok]
    rejects = [check for check in failed if check.otherwise == "reject"]
    if not failed:
        return "promote", f"blind {_gain(blind)}, p {_p(blind['p_value'])}", checks
    decisive = (rejects or failed)[0]
    return decisive.otherwise, f"{decisive.name}: {decisive.text}", checks


def _sound(blind: Mapping[str, Any]) -> list[Check]:
    """Whether the measurement supports any claim at all."""
    coverage = blind["coverage"] or 0.0
    return [
        Check(
            name="enough tasks",
            ok=blind["n"] >= LEAST_N,
            text=f"{blind['n']} blind tasks in common, at least {LEAST_N} needed",
            otherwise="inconclusive",
        ),
        Check(
            name="coverage",
            ok=coverage >= COVERAGE,
            text=f"{coverage:.1%} of {blind['asked']} scored for both, at least {COVERAGE:.0%} needed",
            otherwise="inconclusive",
        ),
    ]


def _better(blind: Mapping[str, Any], rule: Rule) -> list[Check]:
    """Whether the candidate is proven better by enough."""
    gain = blind["difference"] if blind["difference"] is not None else 0.0
    least = max(rule.min_gain, rule.noise)
    hopeless = gain <= 0 or blind["high"] < least
    return [
        Check(
            name="gain",
            ok=gain >= least,
            text=f"{_gain(blind)}, at least {100 * least:.1f} points needed",
            otherwise="reject" if hopeless else "inconclusive",
        ),
        Check(
            name="significance",
            ok=blind["p_value"] < rule.alpha and blind["low"] > 0,
            text=f"p {_p(blind['p_value'])} (exact McNemar, one-sided), alpha {rule.alpha:.4f}",
            otherwise="reject" if hopeless else "inconclusive",
        ),
        Check(
            name="conservative",
            ok=(blind["conservative"] or 0.0) > 0,
            text=f"{_points(blind['conservative'])} points with missing verdicts counted against it",
            otherwise="inconclusive",
        ),
    ]


def _no_regression(name: str, figures: Mapping[str, Any], rule: Rule) -> Check:
    """A drop counts when it is significant and larger than the tolerance."""
    drop = -(figures["difference"] or 0.0)
    regressed = drop > rule.tolerance and figures["high"] < 0
    text = f"{_gain(figures)}, n {figures['n']}, a drop of up to {100 * rule.tolerance:.0f} points"
    return Check(
        name=name.replace("_", "-"),
        ok=not regressed,
        text=f"{text} is tolerated",
        otherwise="reject",
    )


def _audits(audits: Sequence[Mapping[str, Any]]) -> Check:
    """Every required audit approves; one that errors is not an approval."""
    bad = [audit for audit in audits if audit["verdict"] not in ("approved", "not_applicable")]
    rejected = [audit for audit in bad if audit["verdict"] == "rejected"]
    named = ", ".join(f"{audit['type']} {audit['verdict']}: {audit['text']}" for audit in bad)
    return Check(
        name="audits",
        ok=not bad,
        text=named or f"{len(audits)} approved or not applicable",
        otherwise="reject" if rejected else "inconclusive",
    )


def _gain(figures: Mapping[str, Any]) -> str:
    low, high = _points(figures["low"]), _points(figures["high"])
    return f"{_points(figures['difference'])} points [{low}, {high}]"


def _points(value: float | None) -> str:
    return "—" if value is None else f"{100 * value:+.1f}".replace("-", "−")


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "below 0.0001"
