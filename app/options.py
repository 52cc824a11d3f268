"""The command line of run.py: subcommands and their options; standard library alone."""

from __future__ import annotations  # an older Python gets as far as the message about itself

import argparse
from pathlib import Path

# The modules of tests/bench that stand alone.
BENCHES = ("feed", "ledger", "live", "sandbox", "startup", "train", "wall")


def parse(argv: list[str]) -> argparse.Namespace:
    """The arguments, with `serve` where no subcommand is named."""
    first = argv[0] if argv else ""
    if not first or (first.startswith("-") and first not in ("-h", "--help")):
        argv = ["serve", *argv]
    rest: list[str] = []
    if first == "el":  # the rest belongs to a command line of its own
        argv, rest = ["el"], argv[1:]
    if first == "bench":  # each benchmark has options of its own
        argv, rest = argv[:2], argv[2:]
    if first == "test":  # everything else is pytest's, in its order
        own = {"--long", "-h", "--help"}
        rest = [word for word in argv[1:] if word not in own]
        argv = ["test", *(word for word in argv[1:] if word in own)]
    args = parser().parse_args(argv)
    args.rest = rest
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
    text = "names under which others reach it, beside the setting allowed_hosts"
    one.add_argument("--allowed-hosts", metavar="NAME,...", help=text)

    one = add("demo", parents=[home], help="run a real loop here, without a browser")
    one.add_argument("--rounds", type=int, metavar="N", help="how many rounds")
    one.add_argument("--domain", metavar="D", help="what the student is trained on")
    one.add_argument("--preset", metavar="NAME", help="a preset of recipes/presets")
    one.add_argument("--seed", type=int, metavar="S", help="makes the run repeatable")
    one.add_argument("--json", type=Path, metavar="FILE", help="write the result there as well")

    one = add("test", help="run the tests; other arguments go to pytest")
    one.add_argument("--long", action="store_true", help="also run those that take minutes")
    one.set_defaults(home=None)

    one = add("verify", help="run a Verifier over a case file and print where they disagree")
    text = "its name, or the Python file that defines it"
    one.add_argument("--verifier", required=True, metavar="NAME", help=text)
    text = "JSON lines: reply, what is expected, and what the Verifier needs"
    one.add_argument("--cases", required=True, type=Path, metavar="FILE", help=text)
    one.set_defaults(home=None)

    one = add("bench", help="measure a yardstick; its own options follow its name")
    one.add_argument("name", choices=BENCHES)
    one.set_defaults(home=None)

    one = add("doctor", parents=[home], help="say what this machine can do, with mends")
    one.add_argument("--port", type=int, metavar="P", help="a port that should be free")

    one = add("el", help="ask a running server; also installed as .venv/bin/el")
    one.set_defaults(home=None)
    add("link", parents=[home], help="print a new one-time sign-in link")
    _key(add("key", help="make, list and revoke API keys"), home)
    _user(add("user", help="add, list, change and remove people"), home)
    _setting(add("setting", help="see and change settings"), home)
    _model(add("model", help="add, list, try and remove models behind the gateway"), home)
    _project(add("project", help="see and set what a project may spend over all runs"), home)
    _sandbox(add("sandbox", help="make the image that model-written code runs in"), home)

    _cassette(add("cassette", help="put a finished run into a file, or play one"), home)

    one = add("backup", parents=[home], help="copy what cannot be made again, also while it runs")
    one.add_argument("--to", type=Path, metavar="DIR", help="where to (default: backups/ at home)")
    text = "copy the weights of checkpoints as well"
    one.add_argument("--with-checkpoints", action="store_true", help=text)
    one = add("restore", parents=[home], help="put a backup back; the server must be stopped")
    one.add_argument("folder", type=Path, metavar="FOLDER", help="a backup that was made here")
    one = add("clean", parents=[home], help="say what may go: checkpoints, leftovers, old events")
    one.add_argument("--yes", action="store_true", help="remove it")
    return top


def _key(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser
    one = add("create", parents=[home], help="make a key and print it, once, on the last line")
    one.add_argument("--name", required=True, metavar="N")
    one.add_argument("--role", required=True, choices=["viewer", "developer"])
    one.add_argument("--project", metavar="P", help="id or name (default: the first project)")
    one.add_argument("--expires", type=float, metavar="DAYS", help="when it ends (default: never)")
    add("list", parents=[home], help="list the keys, never their text")
    one = add("revoke", parents=[home], help="end a key for good")
    one.add_argument("id", metavar="ID")


def _user(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser
    roles = ["viewer", "developer", "admin"]
    for action, text in (
        ("add", "add a person"),
        ("role", "give a person another role"),
        ("password", "give a person a new password, which ends all of their sign-ins"),
        ("remove", "remove a person with their sign-ins and command-line keys"),
    ):
        one = add(action, parents=[home], help=text)
        one.add_argument("name", metavar="NAME")
        if action in ("add", "role"):
            one.add_argument("--role", required=True, choices=roles)
        if action in ("add", "password"):
            text = "read the password from standard input instead of asking for it"
            one.add_argument("--password-stdin", action="store_true", help=text)
    add("list", parents=[home], help="list the people")


def _setting(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser
    one = add("set", parents=[home], help="give a setting a value, which acts at once")
    one.add_argument("name", metavar="NAME")
    one.add_argument("value", metavar="VALUE", help='"" for none')
    add("list", parents=[home], help="list the settings with their values")


def _model(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser
    one = add("add", parents=[home], help="add a model with its price, or change one")
    one.add_argument("name", metavar="NAME", help="as the provider calls it")
    one.add_argument("--base-url", required=True, metavar="URL", help="such as https://.../v1")
    text = "the environment variable of the server that holds its key"
    one.add_argument("--key-env", metavar="VAR", help=text)
    text = "the file (mode 600) that holds its key"
    one.add_argument("--key-file", type=Path, metavar="FILE", help=text)
    for kind, must in (("input", True), ("output", True), ("cached", False)):
        text = f"price of a million {kind} tokens in USD"
        one.add_argument(f"--{kind}-usd-per-mtok", required=must, metavar="X", help=text)
    text = "price of requests of more than ABOVE tokens; may be given again"
    form = "ABOVE:INPUT:OUTPUT[:CACHED]"
    one.add_argument("--tier", action="append", default=[], metavar=form, help=text)
    text = "it runs on this machine or network: such addresses are refused without this"
    one.add_argument("--local", action="store_true", help=text)
    one.add_argument("--role", choices=["operator", "teacher", "student"], help="what it is for")
    add("list", parents=[home], help="list the models with prices and keys by name")
    for action, text in (
        ("test", "make one tiny call, at the project's cost, and show it"),
        ("remove", "take a model out"),
        ("confirm", "let a model be called again that cost more than it could"),
    ):
        one = add(action, parents=[home], help=text)
        one.add_argument("name", metavar="NAME")


def _project(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser
    one = add("cap", parents=[home], help="show the caps over all runs, or set some")
    one.add_argument("--project", metavar="P", help="id or name (default: the first project)")
    for option, text in (
        ("--max-cost-usd", "models and device together"),
        ("--max-model-cost-usd", "models alone"),
        ("--max-model-requests", "requests to models"),
    ):
        one.add_argument(option, metavar="N", help=f'{text}; "none" for no cap')


def _sandbox(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser
    one = add("build", parents=[home], help="make the image: pull a base, or pack a folder")
    text = "a root file system with Python in it, where no registry answers"
    one.add_argument("--rootfs", type=Path, metavar="DIR", help=text)
    text = "another base than the official Python image, by its digest"
    one.add_argument("--base", metavar="NAME@sha256:...", help=text)
    add("status", parents=[home], help="say which engine and image there are")


def _cassette(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser
    one = add("export", parents=[home], help="write a run that has ended, without secrets")
    one.add_argument("run", metavar="RUN")
    one.add_argument("file", type=Path, metavar="FILE")
    one = add("play", help="show a recorded run in a console of its own: no GPU, key or network")
    one.add_argument("file", type=Path, metavar="FILE")
    text = "1 to 60 times as fast as it was (default: %(default)g)"
    one.add_argument("--speed", type=_speed, default=10.0, metavar="X", help=text)
    one.add_argument("--port", type=int, metavar="P", help="port (default: the first free one)")
    one.add_argument("--no-browser", action="store_true", help="open no browser window")
    one.set_defaults(home=None)


def _speed(text: str) -> float:
    speed = float(text)
    if not 1 <= speed <= 60:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 60")
    return speed
