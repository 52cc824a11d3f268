"""The command line of run.py: subcommands and their options; standard library alone."""

from __future__ import annotations  # an older Python gets as far as the message about itself

import argparse
from pathlib import Path
from typing import Any

PORTS = range(8710, 8730)  # of which the server takes the first free one
# The modules of tests/bench that stand alone.
BENCHES = ("feed", "ledger", "live", "rollout", "sandbox", "startup", "train", "wall")


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

    _serve(add("serve", parents=[home], help="serve the console (the default)"))
    _demo(add("demo", parents=[home], help="run a real loop here, without a browser"))
    one = add("test", help="run the tests; other arguments go to pytest")
    one.add_argument("--long", action="store_true", help="also run those that take minutes")
    one.set_defaults(home=None)
    _verify(add("verify", help="run a Verifier over a case file and print where they disagree"))
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
    _model(add("model", help="base models, and models behind the gateway"), home)
    _preset(add("preset", help="see presets, and look at one before it trains"), home)
    _project(add("project", help="see and set what a project may spend over all runs"), home)
    _sandbox(add("sandbox", help="make the image that model-written code runs in"), home)
    _install(add("install", help="install an engine that is not part of the set-up"), home)
    _checkpoint(add("checkpoint", help="list, take in, hand out and delete what was trained"), home)
    _cassette(add("cassette", help="put a finished run into a file, or play one"), home)
    text = "have a version answer OpenAI clients, asleep when idle"
    _deploy(add("deploy", parents=[home], help=text))
    _upkeep(add, home)
    return top


def _serve(command: argparse.ArgumentParser) -> None:
    command.add_argument("--port", type=int, metavar="P", help="port (default: the first free one)")
    command.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    command.add_argument("--no-browser", action="store_true", help="open no browser window")
    text = "names under which others reach it, beside the setting allowed_hosts"
    command.add_argument("--allowed-hosts", metavar="NAME,...", help=text)


def _demo(command: argparse.ArgumentParser) -> None:
    command.add_argument("--rounds", type=int, metavar="N", help="how many rounds")
    command.add_argument("--domain", metavar="D", help="what the student is trained on")
    command.add_argument("--preset", metavar="NAME", help="a preset of recipes/presets")
    command.add_argument("--seed", type=int, metavar="S", help="makes the run repeatable")
    command.add_argument("--json", type=Path, metavar="FILE", help="write the result there as well")


def _verify(command: argparse.ArgumentParser) -> None:
    text = "its name, or the Python file that defines it"
    command.add_argument("--verifier", required=True, metavar="NAME", help=text)
    text = "JSON lines: reply, what is expected, and what the Verifier needs"
    command.add_argument("--cases", required=True, type=Path, metavar="FILE", help=text)
    command.set_defaults(home=None)


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
    _bases(add, home)
    for action, text in (
        ("test", "make one tiny call, at the project's cost, and show it"),
        ("remove", "take a model out"),
        ("confirm", "let a model be called again that cost more than it could"),
    ):
        one = add(action, parents=[home], help=text)
        one.add_argument("name", metavar="NAME")


def _bases(add: Any, home: argparse.ArgumentParser) -> None:
    one = add("add-base", parents=[home], help="take in a base model to train, with checks")
    one.add_argument("name", metavar="NAME", help="what it is called here")
    where = one.add_mutually_exclusive_group(required=True)
    where.add_argument("--path", type=Path, metavar="FOLDER", help="a folder with its files")
    where.add_argument("--hub", metavar="OWNER/NAME", help="its repository on the hub")
    one.add_argument("--revision", metavar="SHA", help="the commit, in full; needed with --hub")
    text = "the environment variable that holds the hub's token (default: HF_TOKEN, if set)"
    one.add_argument("--token-env", metavar="VAR", help=text)
    text = "hard links to the folder's files instead of copies: change them never again"
    one.add_argument("--link", action="store_true", help=text)
    add("list-bases", parents=[home], help="list the base models that are here")
    one = add("remove-base", parents=[home], help="delete the files of a base model")
    one.add_argument("name", metavar="NAME")
    one.add_argument("--yes", action="store_true", help="even with adapters that need it")


def _preset(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser
    add("list", parents=[home], help="list the presets with what they say of themselves")
    one = add("lint", parents=[home], help="say what a preset needs, and why it would be refused")
    one.add_argument("name", metavar="NAME", help="a preset of recipes/presets")
    text = "the base model to train (default: the preset's own)"
    one.add_argument("--base", metavar="NAME", help=text)


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


def _install(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="what", metavar="WHAT", required=True).add_parser
    one = add("vllm", parents=[home], help="vLLM, in an environment of its own")
    text = "another folder for it; name its bin/python in PAWL_VLLM then"
    one.add_argument("--to", type=Path, metavar="DIR", help=text)


def _checkpoint(command: argparse.ArgumentParser, home: argparse.ArgumentParser) -> None:
    add = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser
    one = add("import", parents=[home], help="take in an adapter that PEFT has saved, with checks")
    one.add_argument("folder", type=Path, metavar="FOLDER", help="with adapter_config.json")
    one.add_argument("--base", required=True, metavar="NAME", help="the base model it belongs to")
    one.add_argument("--name", metavar="WORD", help="what it is called here")
    add("list", parents=[home], help="list what was trained or taken in")
    for action, text in (
        ("export", "write it as a folder for use elsewhere, or merged into its base"),
        ("download", "copy its files as they are, hashes verified"),
        ("delete", "delete its weights; scores and evidence stay"),
    ):
        one = add(action, parents=[home], help=text)
        help_ = "its id, RUN/candidate-1, envloop://JOB/ID, or the name of one that was taken in"
        one.add_argument("reference", metavar="REF", help=help_)
        if action == "delete":
            one.add_argument("--dry-run", action="store_true", help="only say what that would free")
        else:
            text = "a folder that is not there yet"
            one.add_argument("--out", required=True, type=Path, metavar="FOLDER", help=text)
        if action == "export":
            text = "a full model: base and adapter in one, with tokenizer and template"
            one.add_argument("--merge", action="store_true", help=text)
            text = "precision of the merged model (default: the one that it was measured in)"
            one.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], help=text)


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


def _deploy(command: argparse.ArgumentParser) -> None:
    text = "RUN/candidate-1, RUN/base, a checkpoint, or the name of a base model"
    command.add_argument("version", metavar="VERSION", help=text)
    text = "what to call it (default: its version's name)"
    command.add_argument("--name", metavar="N", help=text)


def _upkeep(add: Any, home: argparse.ArgumentParser) -> None:
    one = add("backup", parents=[home], help="copy what cannot be made again, also while it runs")
    one.add_argument("--to", type=Path, metavar="DIR", help="where to (default: backups/ at home)")
    text = "copy the weights of checkpoints as well"
    one.add_argument("--with-checkpoints", action="store_true", help=text)
    one = add("restore", parents=[home], help="put a backup back; the server must be stopped")
    one.add_argument("folder", type=Path, metavar="FOLDER", help="a backup that was made here")
    one = add("clean", parents=[home], help="say what may go: checkpoints, leftovers, old events")
    one.add_argument("--yes", action="store_true", help="remove it")


def _speed(text: str) -> float:
    speed = float(text)
    if not 1 <= speed <= 60:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 60")
    return speed
