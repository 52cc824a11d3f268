"""The main job without a browser: live progress, a closing table, and the result as JSON."""

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app import shapes
from app.caller import Caller
from app.service import Service

POLL_SECONDS = 0.5
QUIET_SECONDS = 15.0  # between progress lines where the screen cannot be rewritten


def demo_fields(
    preset: str | None, domain: str | None, rounds: int | None, seed: int | None
) -> dict[str, Any]:
    """What the demo's run is started with; None leaves a field to the preset."""
    given = {
        "preset": preset or ("demo" if domain in (None, "arith") else "default"),
        "domain": domain,
        "rounds": rounds,
        "seed": seed,
    }
    return {
        "run": f"demo-{time.strftime('%m%d-%H%M%S')}",
        "brief": "Show one whole loop: measure, train on what fails, keep only what is proven.",
        "limits": {"max_model_cost_usd": 1.0},
        **{name: value for name, value in given.items() if value is not None},
    }


class ServerGone(Exception):
    """The server that worked on the run has ended; the run goes on when it starts again."""


def follow(
    service: Service, caller: Caller, run: str, is_served: Callable[[], bool] = lambda: True
) -> shapes.RunDetail:
    """Show what the run does until it ends; returns it as it ended.

    ServerGone when `is_served` says that nobody works on it any more.
    """
    screen = Screen()
    started, since = time.monotonic(), 0
    while True:
        live = service.run_live(caller, run, since)
        for event in live.events:
            screen.line(f"  {clock(time.monotonic() - started)}  {event.role:8}  {event.text}")
        since = live.next_cursor
        if live.state in ("finished", "failed", "stopped"):
            screen.line("")
            return service.run_detail(caller, run)
        screen.progress(progress_line(live, time.monotonic() - started))
        if not live.has_more:
            if not is_served():
                raise ServerGone(f"the server ended; {run} goes on when it starts again")
            time.sleep(POLL_SECONDS)


def progress_line(live: shapes.Live, elapsed: float) -> str:
    """Phase, done of total, elapsed, time left."""
    if live.progress is None:
        return f"  {clock(elapsed)}  {live.state}" + (f", {live.reason}" if live.reason else "")
    round_ = f"round {live.round} of {live.rounds_target}, " if live.round else ""
    parts = [f"{round_}{live.progress.phase.replace('_', ' ')}"]
    if live.progress.total:
        parts.append(f"{live.progress.done} of {live.progress.total} {live.progress.text}")
    if live.progress.seconds_left:
        parts.append(f"about {clock(live.progress.seconds_left)} left of these")
    return f"  {clock(elapsed)}  " + ", ".join(parts)


class Screen:
    """Lines that stay, with one progress line that is rewritten where the terminal can."""

    def __init__(self) -> None:
        self._rewrites = sys.stdout.isatty()
        self._shown = 0.0

    def line(self, text: str) -> None:
        """Print a line that stays."""
        print(f"\r\x1b[K{text}" if self._rewrites else text, flush=True)

    def progress(self, text: str) -> None:
        """Show progress in place, or now and then where lines pile up."""
        if self._rewrites:
            width = shutil.get_terminal_size().columns - 1  # a longer one could not be rewritten
            print(f"\r\x1b[K{text[:width]}", end="", flush=True)
        elif time.monotonic() - self._shown > QUIET_SECONDS:
            self._shown = time.monotonic()
            print(text, flush=True)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


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


def write_json(file: Path, value: dict[str, Any]) -> None:
    """Write the result where `--json` says."""
    file.write_text(json.dumps(value, indent=1) + "\n")


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
