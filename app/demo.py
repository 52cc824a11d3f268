"""The main job without a browser: starts a run, shows its progress and how it ended."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app import shapes
from app.admin import call_admin
from app.administration import LOCAL_OWNER
from app.demo_report import clock, closing_table, result
from app.errors import ServiceError
from app.opened import Opened
from app.service import Service
from app.stopping import Stopping
from data.home import Home, is_held, open_home
from data.store import Reader

POLL_SECONDS = 0.5
QUIET_SECONDS = 15.0  # between progress lines where the screen cannot be rewritten

Open = Callable[[Stopping], Opened]


def run_command(args: argparse.Namespace, folder: Path, device: str, opened: Open) -> int:
    """Carry the demo out; 0 when the run finished. `opened` has a home that nobody holds."""
    if args.json and not args.json.resolve().parent.is_dir():
        print(f"--json: there is no folder {args.json.resolve().parent}", file=sys.stderr)
        return 2
    home, started = open_home(folder), time.monotonic()
    try:
        run = _run(args, home, device, opened)
    except (ServiceError, ServerGone) as refused:
        print(refused, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. The run is kept: python3 run.py goes on with it.")
        return 130
    seconds = time.monotonic() - started
    print(closing_table(run, seconds))
    print(f"\nSee it in the console: {_console_of(run.run, home)}")
    if args.json:
        args.json.write_text(json.dumps(result(run, seconds), indent=1) + "\n")
    return 0 if run.state == "finished" else 1


def _run(args: argparse.Namespace, home: Home, device: str, opened: Open) -> shapes.RunDetail:
    """Start the demo's run here, or on the server that holds the home, and follow it."""
    fields = demo_fields(args.preset, args.domain, args.rounds, args.seed)
    if is_held(home):
        print("A server holds this home folder; the demo runs there.")
        run = call_admin(home.admin_socket, "start_run", **fields)
        reader = Service(Reader(home.database), device)
        return follow(reader, run, is_served=lambda: is_held(home))
    stopping = Stopping()
    with opened(stopping) as pawl:
        run = pawl.service.start_run(LOCAL_OWNER, **fields).run
        return follow(pawl.service, run, is_served=stopping.go_on)


def _console_of(run: str, home: Home) -> str:
    """Where a run can be seen: on the server that holds the home, or how to start one."""
    url = (home.server() or {}).get("url")
    return f"{url}/runs/{run}" if url else f"python3 run.py   (home folder {home.path})"


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


def follow(service: Service, run: str, is_served: Callable[[], bool]) -> shapes.RunDetail:
    """Show what the run does until it ends; returns it as it ended.

    ServerGone when `is_served` says that nobody works on it any more.
    """
    screen = Screen()
    started, since = time.monotonic(), 0
    while True:
        live = service.run_live(LOCAL_OWNER, run, since)
        for event in live.events:
            screen.line(f"  {clock(time.monotonic() - started)}  {event.role:8}  {event.text}")
        since = live.next_cursor
        if live.state in ("finished", "failed", "stopped"):
            screen.line("")
            return service.run_detail(LOCAL_OWNER, run)
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
