"""`el job run`: lists, starts, watches and steers runs."""

from collections.abc import Callable, Iterator
from typing import Any

import typer

from app.cli import options as o
from app.cli.door import Door, get, part, post
from app.cli.follow import Pages, follow_run
from app.cli.grouping import Json, group, summary
from app.cli.problem import Problem
from app.cli.run_tables import print_run, print_runs
from app.cli.show import exit_code, print_json

RUNS = "/agent-runs/rsi/runs"
PAGE = 100


def list_runs(as_json: o.AsJson = False) -> None:
    """List the runs that have training jobs, the most recently updated first."""
    jobs, observed = _training_jobs()
    runs = [summary(run) for run in group(jobs)]
    if as_json:
        print_json({"items": runs, "observed_at": observed})
    else:
        print_runs(runs)


def get_run(run: o.Name, as_json: o.AsJson = False) -> None:
    """Show a run's rounds, their training jobs and the checkpoints."""
    jobs, observed = _training_jobs()
    found = next((one for one in group(jobs) if one["run"] == run), None)
    if found is None:
        raise Problem("AGENT_RUN_NOT_FOUND")
    if as_json:
        print_json(found | {"observed_at": observed})
    else:
        print_run(found)
    raise typer.Exit(exit_code(found))


def start_run(
    run: o.NewName,
    model_cap: o.ModelCap = None,
    total_cap: o.TotalCap = None,
    request_cap: o.RequestCap = None,
    brief: o.Brief = None,
    brief_file: o.BriefFile = None,
    domain: o.Domain = None,
    rounds: o.Rounds = None,
    dry_run: o.DryRun = False,
    student_model: o.Student = None,
    preset: o.Preset = None,
    base_model: o.BaseModel = None,
    operator_model: o.Operator = None,
    teacher_model: o.Teacher = None,
    track: o.Track = None,
    min_gain: o.MinGain = None,
    seed: o.Seed = None,
    start_after: o.StartAfter = None,
) -> None:
    """Start a run and print its receipt; the run goes on without this command."""
    limits = o.limits(model_cap, total_cap, request_cap)
    if "max_model_cost_usd" not in limits:
        raise typer.BadParameter("give --max-model-cost-usd USD, the run's spend on strong models")
    fields = {
        "run": run,
        "brief": o.goal(brief, brief_file),
        "limits": limits,
        "domain": domain,
        "rounds": rounds,
        "dry_run": dry_run or None,
        "student_model": student_model,
        "preset": preset,
        "base_model": base_model,
        "operator_model": operator_model,
        "teacher_model": teacher_model,
        "track": track,
        "min_gain": o.finite(min_gain, "--min-gain"),
        "seed": seed,
        "start_after": start_after,
    }
    _send(RUNS, {name: value for name, value in fields.items() if value is not None})


def live(run: o.Name, since: o.Since = None, follow: o.Follow = False) -> None:
    """Show what a run does now; Ctrl-C ends --follow and leaves the run alone."""
    path = f"{RUNS}/{part(run)}/live"
    if not follow:
        print_json(get(path, since=since))
        return
    try:
        with Pages(path, "since") as read:
            print(f"state: {follow_run(read, since or 0)}")
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def steer(run: o.Name, text: o.Text) -> None:
    """Tell the run something now; it is delivered at the next turn."""
    _send(f"{RUNS}/{part(run)}/steer", {"text": text})


def stop(run: o.Name) -> None:
    """Stop a run after its current round."""
    _send(f"{RUNS}/{part(run)}/control", {"action": "stop"})


def extend(
    run: o.Name,
    rounds: o.Target,
    model_cap: o.ModelCap = None,
    total_cap: o.TotalCap = None,
    request_cap: o.RequestCap = None,
) -> None:
    """Set a run's target rounds, and raise its caps where they are given; it may spend again."""
    body: Json = {"action": "extend", "rounds": rounds}
    limits = o.limits(model_cap, total_cap, request_cap)
    _send(f"{RUNS}/{part(run)}/control", body | ({"limits": limits} if limits else {}))


def resume(run: o.Name) -> None:
    """Go on with a halted run; it may spend again."""
    _send(f"{RUNS}/{part(run)}/control", {"action": "resume"})


COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_runs,
    "get": get_run,
    "start": start_run,
    "live": live,
    "steer": steer,
    "stop": stop,
    "extend": extend,
    "resume": resume,
}


def _send(path: str, body: Json) -> None:
    answer = post(path, body)
    print_json(answer)
    raise typer.Exit(exit_code(answer))


def _training_jobs() -> tuple[list[Json], Any]:
    """Every training job that the key sees, and when the server looked."""
    with Door() as door:
        pages = list(_pages(door))
    return [job for page in pages for job in page["items"]], pages[-1].get("observed_at")


def _pages(door: Door) -> Iterator[Json]:
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen:
        seen.add(cursor)
        page = door.get("/job", type="train", limit=PAGE, cursor=cursor)
        yield page
        cursor = page.get("next_cursor")
        if not cursor:
            return
    raise Problem("INVALID_RESPONSE")  # a list that goes round in circles
