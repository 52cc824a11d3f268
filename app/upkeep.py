"""What `run.py backup`, `restore` and `clean` do and print."""

import argparse
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.administration import administer
from app.administration_cli import carry_out
from app.errors import NotFound
from data.backup import back_up
from data.home import Home, HomeHeld
from data.restore import restore
from data.sizes import as_text


def run_command(args: argparse.Namespace, home: Home) -> int:
    """Carry out one command; 1 when it was refused, with the reason on stderr."""
    return carry_out(
        lambda: STEPS[args.command](args, home),
        also=(HomeHeld,),
        interrupted="Interrupted; nothing half done is left in place.",
    )


def _backup(args: argparse.Namespace, home: Home) -> None:
    into = args.to.expanduser().resolve() if args.to else home.backups
    made = back_up(home, into, args.with_checkpoints)
    rows = ", ".join(f"{made.rows.get(name, 0)} {name}s" for name in ("run", "round", "event"))
    weights = "with weights" if args.with_checkpoints else "manifests only"
    print(f"Backup {made.folder}")
    print(f"{as_text(made.size_bytes)} in {made.seconds:.1f} s; integrity checked, {rows}.")
    print(f"{made.checkpoints} checkpoints, {weights}.")
    if made.left_out:
        print(f"Left out, since their files are not as written: {', '.join(made.left_out)}.")
    print("It holds owner.key and blind.key: keep it as private as the home folder.")
    print(f"Put it back with: python3 run.py restore {shlex.quote(str(made.folder))}")


def _restore(args: argparse.Namespace, home: Home) -> None:
    source: Path = args.folder.expanduser().resolve()
    done = restore(home, source)
    made = f" of {done.made}" if done.made else ""
    print(f"Restored {source}{made} into {home.path} in {done.seconds:.1f} s.")
    if done.kept:
        print(f"What was there before is in {done.kept}")
    if done.missing:
        print(f"Checkpoints that the database lists and the disk lacks: {', '.join(done.missing)}.")
        print("Runs that need one of them say so when they go on.")
    print("Keys revoked and money spent since the backup are as they were then.")
    print("Start with: python3 run.py")


def _clean(args: argparse.Namespace, home: Home) -> None:
    if not home.database.is_file():
        raise NotFound(f"{home.path} has no database yet: nothing to clean (--home, PAWL_HOME)")
    try:
        plan = administer(home, "clean", yes=args.yes)
    except TimeoutError:
        print("The server is still at it; look again in a minute.")
        return
    print("\n".join(cleaning_lines(plan, done=args.yes)))


def cleaning_lines(plan: dict[str, Any], done: bool) -> list[str]:
    """A plan as text: what goes with its size, what stays with its reason, and the sum."""
    going, staying = plan["going"], plan["staying"]
    lines = [_line(item) for item in going]
    if going:
        lines.insert(0, "Gone:" if done else "Would go:")
    if staying:
        lines += ["Stays:", *(_line(item) for item in staying)]
    sums: Counter[str] = Counter()
    for item in going:
        sums["events" if item["kind"] == "events" else "bytes"] += item["size"]
    total = f"{as_text(sums['bytes'])} on disk, {sums['events']} events"
    if not going:
        lines.append("Nothing to clean.")
    elif done:
        lines.append(f"Freed {total}; the database uses the room of its events again.")
    else:
        lines.append(f"Together {total}. python3 run.py clean --yes does it.")
    return lines


def _line(item: dict[str, Any]) -> str:
    size = f"{item['size']} lines" if item["kind"] == "events" else as_text(item["size"])
    return f"  {item['kind']:<11}{item['name']:<32} {size:>12}  {item['why']}"


STEPS: dict[str, Callable[[argparse.Namespace, Home], None]] = {
    "backup": _backup,
    "restore": _restore,
    "clean": _clean,
}
