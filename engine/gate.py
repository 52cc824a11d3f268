"""The gate: from paired figures and audits to promote, reject or inconclusive, with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.words import gain, points

COVERAGE = 0.98
LEAST_N = 100  # fewer blind tasks support no claim
LEAST_ELSEWHERE = 50  # fewer held-out or guard tasks would let a large drop pass unseen


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
        return "promote", f"blind {gain(blind)}, p {_p(blind['p_value'])}", checks
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
    difference = blind["difference"] if blind["difference"] is not None else 0.0
    least = max(rule.min_gain, rule.noise)
    hopeless = difference <= 0 or blind["high"] < least
    return [
        Check(
            name="gain",
            ok=difference >= least,
            text=f"{gain(blind)}, at least {100 * least:.1f} points needed",
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
            text=f"{points(blind['conservative'])} points with missing verdicts counted against it",
            otherwise="inconclusive",
        ),
    ]


def _no_regression(name: str, figures: Mapping[str, Any], rule: Rule) -> Check:
    """A drop counts when it is significant and larger than the tolerance; too few tasks show none."""
    name = name.replace("_", "-")
    if figures["n"] < LEAST_ELSEWHERE:
        text = f"{figures['n']} tasks in common, at least {LEAST_ELSEWHERE} needed to see a drop"
        return Check(name=name, ok=False, text=text, otherwise="inconclusive")
    drop = -figures["difference"]
    tolerated = f"a drop of up to {100 * rule.tolerance:.0f} points is tolerated"
    return Check(
        name=name,
        ok=drop <= rule.tolerance or figures["high"] >= 0,
        text=f"{gain(figures)}, n {figures['n']}, {tolerated}",
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


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "below 0.0001"
