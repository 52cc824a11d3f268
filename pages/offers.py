"""What can be done with a run in its state by a caller with these rights."""

from typing import NamedTuple

from app.caller import Caller
from app.shapes import RunSummary


class Offer(NamedTuple):
    """An action; `why_not` is the reason when it cannot be done at this moment."""

    action: str
    word: str
    icon: str
    why_not: str | None = None


ACTIVE = frozenset({"starting", "running", "paused"})
HALTED = frozenset({"paused", "failed", "stopped"})
BASE = "base"  # the untouched model: there is nothing of ours to hand out
READABLE = ACTIVE | HALTED | {"finished"}


def offers(run: RunSummary, caller: Caller) -> list[Offer]:
    """Everything that makes sense for the run, the most likely first; a viewer only reads."""
    if run.state not in READABLE:
        return []
    kept = _of_best(run, caller)
    if "training.run" not in caller.capabilities:
        return kept
    found = []
    if run.state in HALTED:
        found.append(Offer("resume", "Resume", "sym_o_play_circle"))
    if run.state in ACTIVE:
        found.append(Offer("steer", "Steer", "sym_o_near_me"))
        found.append(Offer("stop", "Stop…", "sym_o_stop_circle", _no_stop(run, caller)))
    found.append(Offer("extend", "Extend…", "sym_o_more_time"))
    found.append(Offer("new", "New from this", "sym_o_content_copy"))
    return found + kept


def _of_best(run: RunSummary, caller: Caller) -> list[Offer]:
    """What can be done with the best version, of which there are weights."""
    best = run.best_version
    if best is None or run.replay or run.simulated or run.mode == "dry":
        return []
    found = []
    if "deploy" in caller.capabilities:
        found.append(Offer("deploy", f"Deploy {best}…", "sym_o_rocket_launch"))
    if best != BASE:
        found.append(Offer("download", f"Download {best}", "sym_o_download"))
    return found


def _no_stop(run: RunSummary, caller: Caller) -> str | None:
    if "training.stop" not in caller.capabilities:
        return f"{caller.actor} lacks the capability training.stop"
    return f"It stops already: {when_stopped(run)}." if run.stop_requested else None


def when_stopped(run: RunSummary) -> str:
    """When a stop takes effect."""
    if run.state == "running" and run.round:
        return f"after round {run.round}"
    return "before round 1, once the preparation is done" if run.state == "running" else "at once"
