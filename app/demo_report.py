"""How a demo's run ended: as a table for people, and as data for `--json`."""

import textwrap
from typing import Any

from app import shapes


def closing_table(run: shapes.RunDetail, seconds: float) -> str:
    """Versions, decisions and cost, as a person reads them."""
    mark = "   SIMULATED: no real model was asked or trained" if run.simulated else ""
    lines = [f"Run {run.run}: {run.state}, {run.reason}{mark}", ""]
    lines += _versions(run)
    for round_ in run.rounds:
        lines += ["", *_round(round_)]
    lines += [
        "",
        _cost(run, seconds),
    ]
    if run.seed is not None:
        lines.append(f"Seed {run.seed}: repeatable, blind tasks follow from the seed")
    return "\n".join(lines)


def _cost(run: shapes.RunDetail, seconds: float) -> str:
    spend = run.spend
    return (
        f"Model spend ${spend.model_usd:.2f} of ${spend.max_model_cost_usd or 0:.2f},"
        f" device time {clock(spend.device_seconds)}, in all {clock(seconds)}"
    )


def _versions(run: shapes.RunDetail) -> list[str]:
    head = (
        f"{'version':14}{'rows':>6}  {'split':10}{'mean':>7}  {'95% interval':16}{'n':>5}  coverage"
    )
    lines = [head]
    for version in run.versions:
        for score in version.scores:
            name = version.version + (" *" if version.version == run.best_version else "")
            lines.append(
                f"{name:14}{_whole(version.trained_rows):>6}  {score.split.replace('_', '-'):10}"
                f"{_score(score.mean):>7}  {_range(score.ci_low, score.ci_high):16}{score.n:>5}"
                f"  {_percent(score.coverage)}" + (f"   round {score.round}" if score.round else "")
            )
    return [*lines, "* the best version"]


def _round(round_: shapes.RoundShape) -> list[str]:
    decision = (round_.decision or round_.outcome or "—").replace("_", " ")
    lines = [f"Round {round_.round}: {decision}. {round_.reason}"]
    plan = textwrap.wrap(round_.hypothesis or "—", 100)
    lines += [f"  plan      {plan[0]}", *(f"            {line}" for line in plan[1:])]
    sources = ", ".join(f"{count} {source}" for source, count in round_.rows_by_source.items())
    new = sum(round_.rows_by_source.values())
    lines.append(f"  rows      {_whole(round_.rows)} trained, {new:,} of them new ({sources})")
    for name, figures in _figures(round_).items():
        if figures is not None:
            gap = figures["difference"]
            lines.append(
                f"  {name:9} {_score(figures['best']['mean'])} to"
                f" {_score(figures['candidate']['mean'])}, difference {_signed(gap['mean'])}"
                f" [{_signed(gap['low'])}, {_signed(gap['high'])}], n {figures['n']},"
                f" coverage {_percent(figures['coverage'])}"
            )
    said = ", ".join(dict.fromkeys(f"{audit.type} {audit.verdict}" for audit in round_.audits))
    lines.append(f"  audits    {said or '—'}")
    return lines


def _figures(round_: shapes.RoundShape) -> dict[str, dict[str, Any] | None]:
    """The paired figures of a round by split; None where nothing was compared."""
    return {
        "dev": round_.dev,
        "blind": _blind(round_.gate) if round_.gate else None,
        "held-out": round_.held_out,
        "guard": round_.guard,
    }


def _blind(gate: shapes.Gate) -> dict[str, Any]:
    return {
        "n": gate.n,
        "coverage": gate.coverage,
        "best": _plain(gate.best_score),
        "candidate": _plain(gate.candidate_score),
        "difference": _plain(gate.difference),
        "p_value": gate.p_value,
    }


def result(run: shapes.RunDetail, seconds: float) -> dict[str, Any]:
    """The run as plain data for `--json`; differences are candidate minus best."""
    return {
        "run": run.run,
        "state": run.state,
        "reason": run.reason,
        "simulated": run.simulated,
        "seed": run.seed,
        "seconds": round(seconds, 1),
        "device_seconds": run.spend.device_seconds,
        "model_usd": run.spend.model_usd,
        "rounds": [_round_result(one) for one in run.rounds],
    }


def _round_result(round_: shapes.RoundShape) -> dict[str, Any]:
    figures = _figures(round_)
    return {
        "round": round_.round,
        "plan": round_.settings,
        "rows": round_.rows,
        "candidate": round_.candidate,
        "outcome": round_.outcome,
        "decision": round_.decision,
        "reason": round_.reason,
        "dev": figures["dev"],
        "blind": figures["blind"],
        "guard": figures["guard"],
        "held_out": figures["held-out"],
        "audits": [
            {"type": a.type, "verdict": a.verdict, "reason": a.reasons[0] if a.reasons else None}
            for a in round_.audits
        ],
    }


def _plain(interval: shapes.Interval | None) -> dict[str, Any] | None:
    return interval.model_dump() if interval else None


def _score(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "—" if value is None else f"{value:+.3f}".replace("-", "−")


def _range(low: float | None, high: float | None) -> str:
    return "—" if low is None or high is None else f"{low:.3f}–{high:.3f}"


def _percent(value: float | None) -> str:
    return "—" if value is None else f"{100 * value:.0f}%"


def _whole(value: int | None) -> str:
    return "—" if value is None else f"{value:,}"


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
