"""What `run.py key`, `user` and `setting` ask for and print."""

import argparse
import getpass
import sys
from collections.abc import Callable
from typing import Any

from app.administration import administer
from app.errors import InvalidRequest, ServiceError
from data.engines import INSTALL, find_vllm
from data.home import Home
from data.snapshot import DatabaseRefused


def run_command(args: argparse.Namespace, home: Home) -> int:
    """Carry out one command; 1 when it was refused, with the reason on stderr."""
    step = STEPS[f"{args.command} {args.action}"]
    return carry_out(lambda: step(args, home), interrupted="Nothing was changed.")


def carry_out(
    step: Callable[[], int | None],
    *,
    also: tuple[type[Exception], ...] = (),
    interrupted: str | None = None,
    unanswered: str | None = None,
) -> int:
    """What a step gives, else 0; 1 when it was refused, with the reason on stderr.

    `also` are refusals beside those of the service and the database. Somebody who interrupts it,
    or waits in vain for the server, reads what is given for that.
    """
    refusals: tuple[type[Exception], ...] = (ServiceError, DatabaseRefused, *also)
    try:
        return step() or 0
    except refusals as refused:
        print(refused, file=sys.stderr)
        return 1
    except TimeoutError:
        if unanswered is None:
            raise
        print(unanswered, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if interrupted is None:
            raise
        print(f"\n{interrupted}", file=sys.stderr)
        return 130


def _key_create(args: argparse.Namespace, home: Home) -> None:
    made = administer(
        home,
        "key.create",
        name=args.name,
        role=args.role,
        project=args.project,
        days=args.expires,
    )
    ends = f"ends {made['expires_at']}" if made["expires_at"] else "does not end by itself"
    print(f"Key {made['id']} ({made['name']}, {made['preset']}, {made['project_id']}) {ends}.")
    print("It is shown this once:")
    print(made["key"])


def _key_list(_args: argparse.Namespace, home: Home) -> None:
    names = ("id", "name", "preset", "project_id", "state", "made_by", "expires_at", "last_used_at")
    print_table(administer(home, "key.list"), names)


def _key_revoke(args: argparse.Namespace, home: Home) -> None:
    ended = administer(home, "key.revoke", key_id=args.id)
    print(f"Key {ended['id']} ({ended['name']}) is revoked.")


def _user_add(args: argparse.Namespace, home: Home) -> None:
    password = _password(args, args.name)
    made = administer(home, "user.add", name=args.name, role=args.role, password=password)
    print(f"{made['name']} can sign in as {made['role']}.")


def _user_list(_args: argparse.Namespace, home: Home) -> None:
    names = ("name", "role", "has_password", "created_at", "signed_in_at")
    print_table(administer(home, "user.list"), names)


def _user_role(args: argparse.Namespace, home: Home) -> None:
    changed = administer(home, "user.role", name=args.name, role=args.role)
    print(f"{changed['name']} is {changed['role']} now and signs in anew.")


def _user_remove(args: argparse.Namespace, home: Home) -> None:
    gone = administer(home, "user.remove", name=args.name)
    print(f"{gone['name']} is removed, with all sign-ins and command-line keys.")
    if gone["keys"]:
        print(f"Project keys that {gone['name']} made still work: {', '.join(gone['keys'])}.")


def _user_password(args: argparse.Namespace, home: Home) -> None:
    password = _password(args, args.name)
    changed = administer(home, "user.password", name=args.name, password=password)
    print(f"{changed['name']} has a new password; all sign-ins with the old one have ended.")


def _setting_set(args: argparse.Namespace, home: Home) -> None:
    made = administer(home, "setting.set", name=args.name, value=args.value)
    print(f"{made['name']} is {made['value'] or 'not set'}.")
    if (made["name"], made["value"]) == ("engine", "vllm") and find_vllm(home.path) is None:
        print(f"vLLM is not installed: nothing answers until it is. {INSTALL}", file=sys.stderr)


def _setting_list(_args: argparse.Namespace, home: Home) -> None:
    print_table(administer(home, "setting.list"), ("name", "value", "about"))


STEPS: dict[str, Callable[[argparse.Namespace, Home], None]] = {
    "key create": _key_create,
    "key list": _key_list,
    "key revoke": _key_revoke,
    "user add": _user_add,
    "user list": _user_list,
    "user role": _user_role,
    "user remove": _user_remove,
    "user password": _user_password,
    "setting set": _setting_set,
    "setting list": _setting_list,
}


def _password(args: argparse.Namespace, name: str) -> str:
    """From standard input, or asked for twice."""
    if args.password_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise InvalidRequest("no terminal to ask for the password: give --password-stdin")
    try:
        password, again = (getpass.getpass(ask) for ask in (f"Password of {name}: ", "Again: "))
    except EOFError:  # Ctrl-D means what Ctrl-C does
        raise KeyboardInterrupt from None
    if again != password:
        raise InvalidRequest("password: the two differ")
    return password


def print_table(rows: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    """Columns as wide as their widest cell; a dash for what is missing."""
    cells = [[name.replace("_", " ") for name in names]]
    cells += [[_word(row[name]) for name in names] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    for line in cells:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip())


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "—" if value in (None, "") else str(value)
