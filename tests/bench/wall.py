"""Where the time of a run goes, phase by phase: of a fresh demo, or of a run that is there already.

Read from what every run records: the step journal, evaluations and their samples, the loss curve.
Parts of a phase: `answers` (generate and verify), `steps` (of training), `start` (what a phase
that uses the device does beside them: loading, rendering rows, checkpoints), `record` (rows and
journal), `work` (all of a phase that needs no device), `lost` (attempts that were cut short).
`between` is the time in which no phase ran.
"""

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlmodel import Session, col, func, select

from data.home import Home
from data.store import Reader
from data.tables import Checkpoint, Evaluation, Run, Sample, Step
from tests.bench.harness import ROOT, BenchFailed, run, write_json

DEVICE_PARTS = ("answers", "steps", "start")
ANSWERS_OF = {"dev": "develop", "diag": "diagnose", "train": "collect"}  # others: blind


@dataclass(kw_only=True, slots=True, frozen=True)
class Part:
    """Seconds of one kind in one phase of one round; rows and tokens where it works on some."""

    round: int
    phase: str
    part: str
    seconds: float
    rows: int | None = None
    tokens: int | None = None


def main(argv: list[str]) -> int:
    """Run the demo unless a home is given, then print its table; 1 when there is no such run."""
    parser = ArgumentParser(prog="run.py bench wall", description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, metavar="DIR", help="look at a run in this home")
    parser.add_argument("--run", metavar="ID", help="which run (default: the newest)")
    parser.add_argument("--preset", default="demo", help="what to run without --home")
    parser.add_argument("--rounds", type=int, metavar="N", help="how many rounds")
    parser.add_argument("--quick", action="store_true", help="one simulated round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the parts there as well")
    args = parser.parse_args(argv)
    if args.home:
        return show(args.home, args)
    with tempfile.TemporaryDirectory(prefix="pawl-bench-") as home:
        run_demo(Path(home), args)
        return show(Path(home), args)


def run_demo(home: Path, args: Namespace) -> None:
    """Run the demo in a home of its own; its progress is shown as it comes."""
    preset, rounds = ("sim", 1) if args.quick else (args.preset, args.rounds)
    command = [sys.executable, str(ROOT / "run.py"), "demo", "--preset", preset]
    command += ["--rounds", str(rounds)] if rounds else []
    done = subprocess.run(command, env={**os.environ, "PAWL_HOME": str(home)}, check=False)
    if done.returncode != 0:
        raise BenchFailed(f"{' '.join(command)} ended with code {done.returncode}")


def show(home: Path, args: Namespace) -> int:
    """Print where a run's time went."""
    database = Home(path=home.expanduser().resolve()).database
    if not database.is_file():
        raise BenchFailed(f"{home} is no home folder: it has no {database.name}")
    reader = Reader(database)
    try:
        with reader.read() as session:
            name = args.run or session.exec(newest_run()).first()
            parts = parts_of(session, name) if name else []
    finally:
        reader.close()
    if not parts:
        raise BenchFailed(f"{home} has no run {args.run or ''} with a phase that is done")
    print("\n".join([f"Run {name}", "", *table(parts), "", *totals(parts)]))
    figures = {"device_idle": idle_share(parts), "parts": [asdict(part) for part in parts]}
    write_json(args.json, {"bench": "wall", "run": name, **figures})
    return 0


def newest_run() -> Any:
    return select(Run.id).order_by(col(Run.created_at).desc())


def parts_of(session: Session, name: str) -> list[Part]:
    """Every part of a run's time, in the order in which it was spent."""
    columns = ("round", "step", "status", "device_seconds", "started_at", "ended_at")
    query = sqlalchemy.select(*(getattr(Step, column) for column in columns))
    steps = session.execute(query.where(col(Step.run) == name).order_by(col(Step.id)))
    parts: list[Part] = []
    before = ""
    for number, phase, status, device, started, ended in steps:
        if before:
            parts.append(
                Part(round=number, phase="", part="between", seconds=apart(before, started))
            )
        if ended is None:
            break
        before = ended
        seconds = apart(started, ended)
        if status == "done":
            parts += parts_of_step(session, name, number, phase, device, seconds)
        else:
            parts.append(Part(round=number, phase=phase, part="lost", seconds=seconds))
    return parts


def parts_of_step(
    session: Session, name: str, number: int, phase: str, device: float, seconds: float
) -> list[Part]:
    """The parts of a finished phase, of which `device` seconds were spent in doing it."""
    work = [*answers_of(session, name, number, phase), *training_of(session, name, number, phase)]
    left = device - sum(part.seconds for part in work)
    start = Part(round=number, phase=phase, part="start", seconds=max(0.0, left))
    record = Part(round=number, phase=phase, part="record", seconds=max(0.0, seconds - device))
    if not work:
        return [Part(round=number, phase=phase, part="work", seconds=seconds)]
    return [start, *work, record]


def answers_of(session: Session, name: str, number: int, phase: str) -> list[Part]:
    """What was answered and verified in a phase, if anything was."""
    found = session.exec(
        select(Evaluation.id, Evaluation.split, Evaluation.seconds).where(
            Evaluation.run == name, Evaluation.round == number
        )
    )
    mine = [(one, seconds) for one, split, seconds in found if phase_of(number, split) == phase]
    if not mine:
        return []
    counted = select(func.count(), func.sum(Sample.tokens_in + Sample.tokens_out))
    ids = col(Sample.evaluation).in_([one for one, _ in mine])
    rows, tokens = session.exec(counted.where(ids)).one()
    return [
        Part(
            round=number,
            phase=phase,
            part="answers",
            seconds=sum(seconds for _, seconds in mine),
            rows=rows,
            tokens=tokens or 0,
        )
    ]


def phase_of(number: int, split: str) -> str:
    """The phase that evaluates a split."""
    return "prepare" if number == 0 else ANSWERS_OF.get(split, "blind")


def training_of(session: Session, name: str, number: int, phase: str) -> list[Part]:
    """The steps of a training, if the phase is one."""
    query = select(Checkpoint.training).where(Checkpoint.run == name, Checkpoint.round == number)
    training = session.exec(query).first() if phase == "train" else None
    if not training or "steps" not in training:
        return []
    return [
        Part(
            round=number,
            phase=phase,
            part="steps",
            seconds=training["seconds"],
            rows=training["rows_used"],
            tokens=training["tokens"],
        )
    ]


def table(parts: Sequence[Part]) -> list[str]:
    """One line a part; what took less than a thousandth of the time is left out."""
    whole = sum(part.seconds for part in parts)
    head = f"{'round':6}{'phase':12}{'part':9}{'seconds':>9}{'share':>7}"
    lines = [f"{head}{'rows':>8}{'tokens':>10}{'tokens/s':>10}"]
    for part in parts:
        if part.seconds >= 0.001 * whole:
            rate = part.tokens / part.seconds if part.tokens else None
            lines.append(
                f"{part.round:<6}{part.phase or '—':12}{part.part:9}{part.seconds:>9.2f}"
                f"{100 * part.seconds / whole:>6.1f}%{count(part.rows):>8}"
                f"{count(part.tokens):>10}{count(rate):>10}"
            )
    return lines


def totals(parts: Sequence[Part]) -> list[str]:
    """What each kind of part took in all, and how long the device had nothing to do."""
    whole = sum(part.seconds for part in parts)
    kinds = {part.part: 0.0 for part in parts}
    for part in parts:
        kinds[part.part] += part.seconds
    said = ", ".join(
        f"{kind} {seconds:.1f} s ({100 * seconds / whole:.1f}%)"
        for kind, seconds in sorted(kinds.items(), key=lambda pair: -pair[1])
    )
    return [
        f"In all {whole:.1f} s: {said}",
        f"Without work for the device in the rounds: {100 * idle_share(parts):.1f}%",
    ]


def idle_share(parts: Sequence[Part]) -> float:
    """The part of the rounds' time in which nothing used the device."""
    rounds = [part for part in parts if part.round > 0] or list(parts)
    whole = sum(part.seconds for part in rounds)
    return sum(part.seconds for part in rounds if part.part not in DEVICE_PARTS) / whole


def apart(start: str, end: str) -> float:
    """Seconds between two of the database's times."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def count(value: float | None) -> str:
    return "—" if value is None else f"{value:,.0f}"


if __name__ == "__main__":
    run(main)
