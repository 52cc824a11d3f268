"""The key of a model behind the gateway, read where it is named; it is never kept in the database."""

import os
import stat
from pathlib import Path

from data.tables import GatewayModel

NO_KEY = "none"  # what a model on this machine is sent when it needs no key
LARGEST = 8192


class KeyMissing(Exception):
    """A model's key cannot be had where it is said to be; the text says where, and what to do.

    `word` says in a word or two what is wrong with the place.
    """

    def __init__(self, text: str, word: str) -> None:
        super().__init__(text)
        self.word = word


def read_key(model: GatewayModel) -> str:
    """The key by the name of an environment variable or a file; KeyMissing when it cannot be had."""
    if model.key_env:
        key = os.environ.get(model.key_env, "").strip()
        if not key:
            raise KeyMissing(
                f"model {model.name}: the environment variable {model.key_env} is not set where "
                "the server was started; set it there, then start the server again",
                "not set",
            )
        return _sendable(key, model.name, model.key_env)
    if model.key_file:
        return _sendable(_key_in(model.name, Path(model.key_file)), model.name, model.key_file)
    if model.local or model.simulated:
        return NO_KEY
    raise KeyMissing(
        f"model {model.name} has no key: add it again with --key-env or --key-file", "none"
    )


def _sendable(key: str, name: str, place: str) -> str:
    """The key, when a request can carry it."""
    if not (key.isascii() and key.isprintable()):
        raise KeyMissing(
            f"model {name}: what {place} holds has a second line or characters that no key has",
            "no key",
        )
    return key


def _key_in(name: str, file: Path) -> str:
    try:
        with open(file, "rb", opener=_at_once) as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                text = f"model {name}: its key file {file} is not a plain file"
                raise KeyMissing(text, "no plain file")
            _check_private(name, file, found)
            key = opened.read(LARGEST).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        word = "missing" if isinstance(error, FileNotFoundError) else "unreadable"
        raise KeyMissing(f"model {name}: its key file {file} cannot be read: {why}", word) from None
    if not key:
        raise KeyMissing(f"model {name}: its key file {file} is empty", "empty")
    return key


def _check_private(name: str, file: Path, found: os.stat_result) -> None:
    """Nobody but this server's user may have the file."""
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise KeyMissing(f"model {name}: others may read {file}: chmod 600 it", f"mode {mode:o}")
    if found.st_uid != os.getuid():
        text = f"model {name}: {file} belongs to another user: give the server one of its own"
        raise KeyMissing(text, "another user's")


def _at_once(file: str, flags: int) -> int:
    """Open it without waiting for anybody, as a pipe would have it."""
    return os.open(file, flags | os.O_NONBLOCK)
