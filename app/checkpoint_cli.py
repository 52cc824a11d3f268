"""What `run.py checkpoint` asks for and prints."""

import argparse
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from app.administration import Commands, administer
from app.administration_cli import carry_out, print_table
from app.checkpoint_card import card
from app.errors import InvalidRequest, ServiceError
from data.home import Home
from data.sizes import as_text
from data.store import Store


class FilesPort(Protocol):
    """What only the engine can do with weights. Each raises a ValueError that says what to do.

    `base` is a base model's name here, `checkpoint` an id; sizes are bytes written.
    """

    def take(self, folder: Path, base: str) -> dict[str, Any]:
        """Copy an adapter into the home; what was found out about it."""
        ...

    def origin(self, base: str) -> dict[str, Any]:
        """What a base is called elsewhere: `name`, `revision`, `exact`, `source`."""
        ...

    def copy(self, checkpoint: str, target: Path) -> int:
        """Write the files as they are, hashes verified."""
        ...

    def adapter(self, checkpoint: str, base: str, target: Path, card: str) -> int:
        """Write the adapter with a card, for use anywhere."""
        ...

    def merged(self, checkpoint: str, base: str, target: Path, card: str, dtype: str) -> int:
        """Write base and adapter as one model in that precision."""
        ...

    def dtype_of(self, checkpoint: str, base: str) -> str:
        """The precision in which a merged model answers as it was measured."""
        ...


@dataclass(kw_only=True, slots=True, frozen=True)
class Desk:
    """The home a command works on, and what it is lent."""

    home: Home
    port: FilesPort
    more: Callable[[Store], Commands]  # the administration commands, for a home nobody holds

    def ask(self, command: str, **arguments: Any) -> Any:
        """What the holder of the home says to a command."""
        return administer(self.home, f"checkpoint.{command}", self.more, **arguments)


def run_command(args: argparse.Namespace, desk: Desk) -> int:
    """Carry out one command; 1 when it was refused, with the reason on stderr."""
    return carry_out(
        lambda: STEPS[args.action](args, desk),
        also=(ValueError,),
        interrupted="Interrupted; nothing half done is left in place.",
        unanswered="no answer yet: see `run.py checkpoint list` and the server's log",
    )


def _import(args: argparse.Namespace, desk: Desk) -> None:
    if args.name is not None:
        desk.ask("check_name", name=args.name)
    taken = desk.port.take(_whole(args.folder), args.base)
    try:
        made = desk.ask("record", name=args.name, taken=taken)
    except ServiceError:
        if taken["new"] and not _is_listed(desk, taken["id"]):  # nobody would ever remove it
            shutil.rmtree(desk.home.checkpoints / taken["id"], ignore_errors=True)
        raise
    if made["known"]:
        print(f"It is here already: {made['name']}, {made['reference']}")
        if args.name not in (None, made["name"]):
            print(f"The name {args.name} was not given to it.")
        return
    layers = f"rank {taken['rank']} on {', '.join(taken['modules'])}"
    print(f"Imported {made['name']} ({layers}, {as_text(taken['size'])}) for {taken['base']}.")
    for line in _doubts(taken):
        print(line)
    print(f"Deploy it as {made['name']}, or {made['reference']}")


def _is_listed(desk: Desk, checkpoint: str) -> bool:
    """Whether it is in the tables all the same, as when a server ended before it answered."""
    try:
        return checkpoint in {row["id"] for row in desk.ask("list")}
    except (ServiceError, TimeoutError):
        return True


def _doubts(taken: Mapping[str, Any]) -> list[str]:
    """What a person should know of an adapter that fits all the same."""
    told = []
    claims = taken["claims"].rstrip("/").rpartition("/")[2]
    if claims and claims != taken["base"]:
        told.append(
            f"Its config names {taken['claims']} as its base: the shapes fit {taken['base']}, and "
            "whether it was trained on it only its answers can show."
        )
    if taken["left"]:
        told.append(f"Not taken: {', '.join(taken['left'])}.")
    return told


def _list(_args: argparse.Namespace, desk: Desk) -> None:
    rows = desk.ask("list")
    if not rows:
        print("No checkpoints yet.")
        return
    for row in rows:
        row["size"], row["made"] = as_text(row["bytes"]), row["made"][:16].replace("T", " ")
        row["from"] = f"{row['from']} (simulated)" if row["simulated"] else row["from"]
    print_table(rows, ("name", "id", "base_model", "size", "made", "from"))


def _delete(args: argparse.Namespace, desk: Desk) -> None:
    done = desk.ask("delete", reference=args.reference, dry_run=args.dry_run)
    named, size = f"{', '.join(done['names'])} ({done['id']})", as_text(done["freed_bytes"])
    if args.dry_run:
        print(f"Would delete {named}, which frees {size}. Nothing was changed.")
    else:
        print(f"Deleted {named}: {size} freed. Its scores and evidence stay.")


def _download(args: argparse.Namespace, desk: Desk) -> None:
    facts, target = desk.ask("about", reference=args.reference), _whole(args.out)
    size = desk.port.copy(facts["id"], target)
    print(f"{facts['name']}: {as_text(size)} in {target}, hashes verified.")


def _export(args: argparse.Namespace, desk: Desk) -> None:
    if args.dtype is not None and not args.merge:
        raise InvalidRequest("--dtype: only a merged model has a precision of its own (--merge)")
    facts, target = desk.ask("about", reference=args.reference), _whole(args.out)
    if facts["simulated"]:
        raise InvalidRequest(f"{facts['name']} is simulated: it has no weights to export")
    base, port = facts["base_model"], desk.port
    origin = port.origin(base)
    if args.merge:
        dtype = args.dtype or port.dtype_of(facts["id"], base)
        print(f"Merging {facts['name']} into {base} in {dtype} ...", flush=True)
        text = card(facts, origin, dtype)
        size = port.merged(facts["id"], base, target, text, dtype)
        print(f"Model {target}: {as_text(size)}, hashes in manifest.json, a card in README.md.")
        print(f"Use it here with: python3 run.py model add-base NAME --path {target}")
        return
    size = port.adapter(facts["id"], base, target, card(facts, origin, None))
    print(f"Adapter {target}: {as_text(size)}, hashes in manifest.json, a card in README.md.")
    print(f"Its base is called {origin['name']} there.")


STEPS: dict[str, Callable[[argparse.Namespace, Desk], None]] = {
    "import": _import,
    "list": _list,
    "delete": _delete,
    "download": _download,
    "export": _export,
}


def _whole(path: Path) -> Path:
    return path.expanduser().absolute()
