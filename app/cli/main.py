"""The command `el`: what a server of Pawl can be asked from a terminal, over REST.

It loads nothing of the server, so that it starts at once. Exit codes: 0 success, 1 an error or an
answer that tells of a failure, 2 a mistake in the command, 130 interrupted.
"""

import sys
from typing import Any, NoReturn

import typer

from app.cli import job_commands, run_commands
from app.cli.problem import Problem

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "context_settings": SETTINGS,
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


def main(argv: list[str] | None = None) -> NoReturn:
    """Carry out one command and end the process."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        command()(args=argv, prog_name="el")
    except Problem as problem:
        print(problem, file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def command() -> typer.Typer:
    """`el` with `job` and `job run` below it."""
    el = typer.Typer(help="Ask a Pawl server from the terminal.", **PLAIN)
    job = typer.Typer(help="Jobs: training, inference and what runs do.", **PLAIN)
    run = typer.Typer(help="Runs: start, watch, steer, stop.", **PLAIN)
    for name, act in job_commands.COMMANDS.items():
        job.command(name)(act)
    for name, act in run_commands.COMMANDS.items():
        run.command(name)(act)
    job.add_typer(run, name="run")
    el.add_typer(job, name="job")
    return el
