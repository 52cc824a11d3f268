"""What `run.py model add-base`, `list-bases` and `remove-base` ask for and print."""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from app.administration import Commands, administer
from app.administration_cli import carry_out, print_table
from app.errors import InvalidRequest
from data.home import Home
from data.sizes import as_text
from data.store import Store

Say = Callable[[str], None]
Progress = Callable[[int, int], None]
ACTIONS = ("add-base", "list-bases", "remove-base")


class BasesPort(Protocol):
    """What only the engine can do with weights. Each raises a ValueError that says what to do."""

    def add_folder(
        self, name: str, folder: Path, link: bool, say: Say, progress: Progress
    ) -> dict[str, Any]:
        """Take in a folder of this machine."""
        ...

    def add_from_hub(
        self,
        name: str,
        repository: str,
        revision: str,
        token_env: str | None,
        say: Say,
        progress: Progress,
    ) -> dict[str, Any]:
        """Fetch a repository at one commit and take it in."""
        ...

    def list_all(self) -> list[dict[str, Any]]:
        """Every base model by name."""
        ...

    def unfinished(self) -> list[dict[str, Any]]:
        """Downloads that broke, each with its folder."""
        ...

    def remove(self, name: str) -> int:
        """Delete one; the bytes that are free again."""
        ...


def run_command(
    args: argparse.Namespace, home: Home, port: BasesPort, more: Callable[[Store], Commands]
) -> int:
    """Carry out one command; 1 when it was refused, with the reason on stderr.

    The files are worked on in this process, so that a long copy holds up no server; whether
    somebody still needs a base is asked of the one that runs.
    """
    steps = {
        "add-base": lambda: _add(args, port),
        "list-bases": lambda: _list(port),
        "remove-base": lambda: _remove(args, home, port, more),
    }
    interrupted = "Interrupted. The same command goes on with a download."
    return carry_out(steps[args.action], also=(ValueError,), interrupted=interrupted)


def _add(args: argparse.Namespace, port: BasesPort) -> None:
    shown = Shown()
    if args.hub is not None:
        if args.revision is None:
            raise InvalidRequest("--revision: give the full SHA of the commit, since names move")
        made = port.add_from_hub(
            args.name, args.hub, args.revision, args.token_env, shown.say, shown.progress
        )
    elif args.revision is not None or args.token_env is not None:
        raise InvalidRequest("--revision and --token-env belong to --hub")
    else:
        folder = args.path.expanduser().absolute()
        made = port.add_folder(args.name, folder, args.link, shown.say, shown.progress)
    shown.end()
    numbers = f"{made['parameters'] / 1e9:.2f} billion parameters"
    print(f"Added {made['name']}: {made['architecture']}, {numbers}, {as_text(made['bytes'])}.")
    print(f"It is revision {made['revision']}, from {made['source']}.")
    print(f"What a preset needs on it: python3 run.py preset lint NAME --base {made['name']}")


def _list(port: BasesPort) -> None:
    rows = port.list_all()
    for row in rows:
        row["size"] = as_text(row["bytes"])
    print_table(rows, ("name", "size", "revision", "source"))
    for one in port.unfinished():
        if one["hub"] is None:
            print(f"\n{as_text(one['bytes'])} of {one['name']} were copied and then cut off:")
            print(f"the same add-base begins anew, or delete {one['folder']}")
            continue
        print(f"\n{as_text(one['bytes'])} of {one['hub']} at {one['revision']} are fetched:")
        print(f"the same add-base goes on with it, or delete {one['folder']}")


def _remove(
    args: argparse.Namespace, home: Home, port: BasesPort, more: Callable[[Store], Commands]
) -> None:
    adapters = administer(home, "base.check_removal", more, name=args.name)
    if adapters and not args.yes:
        word = "adapter was" if adapters == 1 else "adapters were"
        raise InvalidRequest(
            f"{adapters} {word} trained on {args.name} and cannot answer without it: add --yes to "
            "remove it all the same"
        )
    freed = port.remove(args.name)
    print(f"Base model {args.name} is removed; {as_text(freed)} are free again.")


@dataclass(slots=True)
class Shown:
    """How far a copy or download is: one line on a terminal, elsewhere a line now and then."""

    _last: float = 0.0
    _open: bool = False
    _terminal: bool = field(default_factory=sys.stdout.isatty)

    def say(self, text: str) -> None:
        self.end()
        print(text, flush=True)

    def progress(self, done: int, total: int) -> None:
        pause = 0.2 if self._terminal else 10.0
        if time.monotonic() - self._last < pause and done < total:
            return
        self._last = time.monotonic()
        text = f"{as_text(done)} of {as_text(total)} ({done / max(1, total):.0%})"
        print(f"\r{text}  " if self._terminal else text, end="" if self._terminal else "\n")
        sys.stdout.flush()
        self._open = self._terminal

    def end(self) -> None:
        """Leave the line that shows progress."""
        if self._open:
            print()
        self._open = False
