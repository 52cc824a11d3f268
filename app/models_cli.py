"""What `run.py model` and `run.py project` ask for and print."""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from app.administration import Commands, administer
from app.administration_cli import carry_out, print_table
from app.billing import usd
from app.errors import InvalidRequest
from data.home import Home
from data.store import Store

More = Callable[[Store], Commands]


def run_command(args: argparse.Namespace, home: Home, more: More) -> int:
    """Carry out one command; 1 when it was refused, with the reason on stderr.

    `more` makes the commands that need the engine, for a home that no server holds.
    """
    step = STEPS[f"{args.command} {args.action}"]
    unanswered = "no answer yet: see `run.py model list` and the server's log"
    return carry_out(lambda: step(args, home, more), unanswered=unanswered)


def _add(args: argparse.Namespace, home: Home, more: More) -> int:
    made = administer(
        home,
        "model.add",
        more,
        name=args.name,
        base_url=args.base_url,
        input_micro=micro("--input-usd-per-mtok", args.input_usd_per_mtok),
        output_micro=micro("--output-usd-per-mtok", args.output_usd_per_mtok),
        cached_micro=micro("--cached-usd-per-mtok", args.cached_usd_per_mtok),
        key_env=args.key_env,
        key_file=None if args.key_file is None else str(_whole(args.key_file)),
        local=args.local,
        role=args.role,
        tiers=[_tier(text) for text in args.tier],
    )
    prices = f"${made['input_usd']} in, ${made['output_usd']} out per million tokens"
    print(f"Model {made['name']} at {made['base_url']}: {prices}.")
    if made["key_missing"]:
        print(f"It cannot be called yet: {made['key_missing']}.")
    else:
        print(f"Try it with: python3 run.py model test {made['name']}")
    return 0


def _list(_args: argparse.Namespace, home: Home, more: More) -> int:
    rows = administer(home, "model.list", more)
    for row in rows:
        row["key"] = f"{row['key']} ({row['key_word']})" if row["key_missing"] else row["key"]
    names = ("name", "role", "input_usd", "cached_usd", "output_usd", "base_url", "key", "local")
    print_table(rows, names)
    for row in rows:
        for line in _notes(row):
            print(f"\n{line}")
    return 0


def _notes(row: dict[str, Any]) -> Iterator[str]:
    """What a table has no room for: dearer prices, and why a model cannot be called."""
    for tier in sorted(row["tiers"], key=lambda tier: tier["above"]):
        kinds = [kind for kind in ("input", "cached", "output") if kind in tier]
        prices = ", ".join(f"{kind} ${usd(tier[kind])}" for kind in kinds)
        yield f"{row['name']} above {tier['above']:,} tokens: {prices}"
    if row["key_missing"]:
        yield f"{row['key_missing']}."
    if row["blocked"]:
        yield f"{row['name']} is refused: {row['blocked']}"


def _test(args: argparse.Namespace, home: Home, more: More) -> int:
    told = administer(home, "model.test", more, name=args.name)
    if told["error"]:
        print(told["error"], file=sys.stderr)
        if told["cost"]:
            why = "all that was reserved, since nobody can tell what it cost"
            print(f"Uncertain: charged ${told['cost_usd']}, {why}.", file=sys.stderr)
        return 1
    used = told["usage"]
    tokens = "it did not say how many tokens"
    if "input_tokens" in used:
        tokens = f"{used['input_tokens']} tokens in, {used['output_tokens']} out"
    print(f"{told['model']} answered {told['text'][:60]!r}: {tokens}, ${told['cost_usd']}.")
    if told["uncertain"]:
        print("This cost is uncertain: all that was reserved is charged, since it told no usage.")
    return 0


def _remove(args: argparse.Namespace, home: Home, more: More) -> int:
    gone = administer(home, "model.remove", more, name=args.name)
    print(f"Model {gone['name']} is removed; what it cost stays in the ledger.")
    return 0


def _confirm(args: argparse.Namespace, home: Home, more: More) -> int:
    before = [one for one in administer(home, "model.list", more) if one["name"] == args.name]
    confirmed = administer(home, "model.confirm", more, name=args.name)
    if before and not before[0]["blocked"]:
        print(f"Model {confirmed['name']} was not refused: there was nothing to confirm.")
        return 0
    print(f"Model {confirmed['name']} may be called again; stopped runs can be resumed.")
    return 0


def _cap(args: argparse.Namespace, home: Home, more: More) -> int:
    given = {
        "max_cost_usd": args.max_cost_usd,
        "max_model_cost_usd": args.max_model_cost_usd,
        "max_model_requests": args.max_model_requests,
    }
    caps = {name: _cap_value(text) for name, text in given.items() if text is not None}
    told = administer(home, "project.cap", more, project=args.project, caps=caps)
    print(f"Project {told['project']} has spent ${told['spent_usd']} over all runs.")
    for name, value in told["caps"].items():
        print(f"  {name}: {'none' if value is None else value}")
    return 0


STEPS: dict[str, Callable[[argparse.Namespace, Home, More], int]] = {
    "model add": _add,
    "model list": _list,
    "model test": _test,
    "model remove": _remove,
    "model confirm": _confirm,
    "project cap": _cap,
}


def micro(option: str, text: str | None) -> int | None:
    """A price in USD as micro-dollars, rounded up so that none becomes nothing."""
    if text is None:
        return None
    try:
        return math.ceil(Decimal(text) * 10**6)
    except (ArithmeticError, ValueError):
        raise InvalidRequest(f"{option}: {text!r} is not an amount such as 2.50") from None


def _tier(text: str) -> dict[str, int]:
    """ABOVE:INPUT:OUTPUT[:CACHED] as a tier of a price."""
    above, *prices = text.split(":")
    if not above.isdecimal() or len(prices) not in (2, 3):
        raise InvalidRequest(f"--tier: {text!r} is not ABOVE:INPUT:OUTPUT or ABOVE:...:CACHED")
    named = zip(("input", "output", "cached"), prices, strict=False)
    return {"above": int(above)} | {kind: micro("--tier", price) or 0 for kind, price in named}


def _cap_value(text: str) -> Any:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"{text!r} is neither a number nor none") from None


def _whole(path: Path) -> Path:
    return path.expanduser().absolute()
