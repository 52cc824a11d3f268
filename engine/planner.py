"""The built-in planner: one hypothesis a round from measured failures; no model, no cost."""

import math
from collections.abc import Mapping
from typing import Any

BUILT_IN = "built-in"
REHEARSAL_SHARE = 0.1  # of a fair share: what a family that no longer fails still gets


def make_plan(
    strata: Mapping[str, Mapping[str, Mapping[str, Any]]],
    tasks: int,
    rooms: Mapping[str, int | None],
    labels: Mapping[str, str],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """A plan from `strata` (family -> difficulty -> {mean, n}), at most `tasks` tasks.

    Families get tasks by the root of how often they fail, so that what is nearly learned is still
    practised enough to be kept; inside a family its failing difficulties do in proportion. `rooms`
    bounds each family (None: no bound). The result has `families` (id -> {"tasks", "strata"}),
    `because` (what it rests on), `hypothesis` and `settings`.
    """
    failing = {family: _failure(by_stratum.values()) for family, by_stratum in strata.items()}
    counts = _shares({family: math.sqrt(share) for family, share in failing.items()}, tasks)
    families = {}
    for family, count in counts.items():
        room = rooms.get(family)
        count = count if room is None else min(count, room)
        weights = {name: 1 - figures["mean"] for name, figures in strata[family].items()}
        families[family] = {"tasks": count, "strata": _shares(weights, count)}
    return {
        "planner": BUILT_IN,
        "hypothesis": _hypothesis(failing, families, labels, settings),
        "families": families,
        "because": [
            {"family": family, "difficulty": name, "right": round(f["mean"] * f["n"]), "n": f["n"]}
            for family, by_stratum in strata.items()
            for name, f in by_stratum.items()
        ],
        "method": "LoRA on verified answers",
        "settings": dict(settings),
    }


def _failure(figures: Any) -> float:
    """The share of wrong answers over the difficulties of a family."""
    figures = list(figures)
    n = sum(one["n"] for one in figures)
    return 1 - sum(one["mean"] * one["n"] for one in figures) / n if n else 1.0


def _shares(weights: Mapping[str, float], total: int) -> dict[str, int]:
    """Whole numbers that add up to `total`, in proportion to weights with a floor for rehearsal."""
    if not weights:
        return {}
    fair = sum(weights.values()) / len(weights) or 1.0
    floored = {name: max(weight, REHEARSAL_SHARE * fair) for name, weight in weights.items()}
    return divided(floored, total)


def divided(weights: Mapping[str, float], total: int) -> dict[str, int]:
    """Whole numbers that add up to `total`, in proportion to weights, which are not all 0."""
    scale = total / sum(weights.values())
    counts = {name: int(weight * scale) for name, weight in weights.items()}
    by_rest = sorted(weights, key=lambda name: weights[name] * scale - counts[name], reverse=True)
    for name in by_rest[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _hypothesis(
    failing: Mapping[str, float],
    families: Mapping[str, Mapping[str, Any]],
    labels: Mapping[str, str],
    settings: Mapping[str, Any],
) -> str:
    """The plan in a sentence."""
    worst = [f for f in sorted(failing, key=lambda f: -failing[f]) if families[f]["tasks"]]
    named = _joined([f"{labels[family]} ({failing[family]:.0%} wrong)" for family in worst])
    counts = _joined([str(families[family]["tasks"]) for family in worst])
    replay = settings.get("replay_share", 0)
    kept = f", with {replay:.0%} replay to keep general answers" if replay else ""
    return (
        f"{named[:1].upper()}{named[1:]} need practice: verified answers to {counts} new tasks"
        f" of them should lift them{kept}."
    )


def _joined(words: list[str]) -> str:
    """Words as people list them."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
