"""What a run can be told on the command line: options with both spellings of the caps."""

import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.problem import Problem

Name = Annotated[str, typer.Argument(metavar="RUN", help="the run's id")]
NewName = Annotated[str, typer.Argument(metavar="RUN", help="new id: a-z, 0-9 and dashes")]
AsJson = Annotated[bool, typer.Option("--json", help="the whole answer as JSON")]
Since = Annotated[int | None, typer.Option(metavar="N", help="only events after number N")]
Follow = Annotated[bool, typer.Option("--follow", help="print new events until the run ends")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="1 to 4000 characters")]
Target = Annotated[int, typer.Option(metavar="N", help="the new target")]

# Either spelling of a cap; what was given more than once must agree.
ModelCap = Annotated[
    list[float] | None,
    typer.Option(
        "--max-model-cost-usd",
        "--model-usd-cap",
        metavar="USD",
        help="hard stop for spend on strong models; a start needs it",
    ),
]
TotalCap = Annotated[
    list[float] | None,
    typer.Option(
        "--max-cost-usd", "--usd-cap", metavar="USD", help="cap for models and device together"
    ),
]
RequestCap = Annotated[
    list[int] | None,
    typer.Option(
        "--max-model-requests", "--model-request-cap", metavar="N", help="cap on model requests"
    ),
]

Brief = Annotated[str | None, typer.Option(metavar="TEXT", help="the goal")]
BriefFile = Annotated[
    str | None, typer.Option(metavar="PATH", help="read the goal from a file, - for stdin")
]
Domain = Annotated[str | None, typer.Option(metavar="D", help="what the student is trained on")]
Rounds = Annotated[int | None, typer.Option(metavar="N", help="target rounds")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="train nothing, spend on models alone")]
Student = Annotated[str | None, typer.Option(metavar="NAME", help="gateway student of a dry run")]
Preset = Annotated[str | None, typer.Option(metavar="NAME", help="preset to begin with")]
BaseModel = Annotated[str | None, typer.Option(metavar="NAME", help="base model to improve")]
Operator = Annotated[str | None, typer.Option(metavar="NAME", help="gateway model that plans")]
Teacher = Annotated[str | None, typer.Option(metavar="NAME", help="gateway model that teaches")]
Track = Annotated[str | None, typer.Option(metavar="T", help="data, harness or joint")]
MinGain = Annotated[float | None, typer.Option(metavar="G", help="least gain, 0 to 1")]
Seed = Annotated[int | None, typer.Option(metavar="S", help="makes the run repeatable")]
StartAfter = Annotated[
    str | None, typer.Option(metavar="TIME", help="ISO 8601 time with its offset")
]


def limits(
    model_cap: list[float] | None, total_cap: list[float] | None, request_cap: list[int] | None
) -> dict[str, Any]:
    """The caps that were given, under their documented names."""
    given = {
        "max_model_cost_usd": _one(model_cap, "--max-model-cost-usd"),
        "max_cost_usd": _one(total_cap, "--max-cost-usd"),
        "max_model_requests": _one(request_cap, "--max-model-requests"),
    }
    return {name: value for name, value in given.items() if value is not None}


def goal(text: str | None, file: str | None) -> str:
    """The brief, from exactly one of its two options."""
    if (text is None) == (file is None):
        raise typer.BadParameter("give either --brief TEXT or --brief-file PATH")
    return text or "" if file is None else content(file)


def content(file: str) -> str:
    """The text of a file, or of standard input for a dash."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise Problem("FILE_ERROR") from None


def finite(value: float | None, option: str) -> float | None:
    """A number that JSON can carry."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{option}: give a number")
    return value


def _one(values: Iterable[float] | None, option: str) -> float | None:
    different = sorted(set(values or ()))
    if len(different) > 1:
        told = " and ".join(map(str, different))
        raise typer.BadParameter(f"{option}: both {told} were given, in one spelling or two")
    return finite(different[0], option) if different else None
