"""The server's own log: `logs/server.log`, rotated, one line an entry, without keys.

The worker's log is written by the worker itself.
"""

import logging
import logging.handlers
import os
import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path

log = logging.getLogger("pawl")

FILES = 10
BYTES_EACH = 10 * 1024 * 1024
OURS = ("app", "data", "engine", "pages", "pawl")  # what they say at INFO is kept as well
LONGEST = 4000  # characters of a line

ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.?)")
SECRETS = re.compile(
    r"(?i)(?:pawl_[a-z0-9]+_|\bsk-|\bbearer\s+|\bbasic\s+|[?&](?:link|key|token|code)=)"
    r"([a-z0-9._~+/=-]{8,})"
)


def keep_log(
    folder: Path, *, bytes_each: int = BYTES_EACH, files: int = FILES
) -> Callable[[], None]:
    """Write everything from WARNING on to `folder`/server.log, and ours from INFO on; how to end it.

    Warnings go to standard error as well. With a full disk, or no right to write, entries are lost
    and nothing else.
    """
    file = _ServerLog(folder / "server.log", maxBytes=bytes_each, backupCount=files - 1, delay=True)
    terminal = logging.StreamHandler()
    terminal.setLevel(logging.WARNING)
    for handler in (file, terminal):
        handler.setFormatter(_Plain())
        logging.getLogger().addHandler(handler)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    log.info("process %d has the home", os.getpid())

    def end() -> None:
        log.info("process %d gives the home back", os.getpid())
        for handler in (file, terminal):
            for name in ("", "uvicorn"):
                logging.getLogger(name).removeHandler(handler)
            handler.close()

    return end


def keep_web_log() -> None:
    """Have the web server's errors in the same file; once it has set its own logging up."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _ServerLog):
            logging.getLogger("uvicorn").addHandler(handler)


class _ServerLog(logging.handlers.RotatingFileHandler):
    """A rotated file that its owner alone can read."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=_private)

    def handleError(self, record: logging.LogRecord) -> None:
        """A log that cannot be written stops nothing."""


class _Plain(logging.Formatter):
    """Time in UTC, level, source, message; a traceback indented below, so that none looks like an
    entry of its own."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        when = moment.replace("+00:00", "Z")
        said = plain(record.getMessage())
        lines = [f"{when} {record.levelname} {record.name}: {said}"]
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            lines += [f"    {plain(line)}" for line in trace.splitlines()]
        return "\n".join(lines)


def plain(text: str) -> str:
    """Text as one line without keys, escape sequences and characters that steer a terminal."""
    text = SECRETS.sub(_masked, ESCAPES.sub("", text))
    if not text.isprintable():
        text = "".join(_shown(char) for char in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _masked(found: re.Match[str]) -> str:
    return found[0].removesuffix(found[1]) + "***"


def _shown(char: str) -> str:
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": " "}[char]
    is_control = unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp", "Cs"}
    return "" if is_control else char


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
