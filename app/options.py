"""The command line of run.py: subcommands and their options; standard library alone."""

from __future__ import annotations  # an older Python gets as far as the message about itself

import argparse
from pathlib import Path


def parse(argv: list[str]) -> argparse.Namespace:
    """The arguments, with `serve` where no subcommand is named."""
    first = argv[0] if argv else ""
    if not first or (first.startswith("-") and first not in ("-h", "--help")):
        argv = ["serve", *argv]
    rest: list[str] = []
    if first == "test":  # everything else is pytest's, in its order
        own = {"--long", "-h", "--help"}
        rest = [word for word in argv[1:] if word not in own]
        argv = ["test", *(word for word in argv[1:] if word in own)]
    args = parser().parse_args(argv)
    args.pytest = rest
    return args


def parser() -> argparse.ArgumentParser:
    """All subcommands with their options."""
    top = argparse.ArgumentParser(prog="run.py", description="Pawl runs model-improvement loops.")
    home = argparse.ArgumentParser(add_help=False)
    text = "where everything is kept (default: PAWL_HOME, else ~/.local/share/pawl)"
    home.add_argument("--home", type=Path, metavar="DIR", help=text)
    add = top.add_subparsers(dest="command", metavar="COMMAND").add_parser

    one = add("serve", parents=[home], help="serve the console (the default)")
    one.add_argument("--port", type=int, metavar="P", help="port (default: the first free one)")
    one.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    one.add_argument("--no-browser", action="store_true", help="open no browser window")

    one = add("demo", parents=[home], help="run a real loop here, without a browser")
    one.add_argument("--rounds", type=int, metavar="N", help="how many rounds")
    one.add_argument("--domain", metavar="D", help="what the student is trained on")
    one.add_argument("--preset", metavar="NAME", help="a preset of recipes/presets")
    one.add_argument("--seed", type=int, metavar="S", help="makes the run repeatable")
    one.add_argument("--json", type=Path, metavar="FILE", help="write the result there as well")

    one = add("test", help="run the tests; other arguments go to pytest")
    one.add_argument("--long", action="store_true", help="also run those that take minutes")
    one.set_defaults(home=None)

    one = add("doctor", parents=[home], help="say what this machine can do, with mends")
    one.add_argument("--port", type=int, metavar="P", help="a port that should be free")

    add("link", parents=[home], help="print a new one-time sign-in link")
    return top
