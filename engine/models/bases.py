"""Takes a folder of weights in as a base model: checked at the door, copied whole, or not at all."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.disk import room
from data.files import MANIFEST, publish, read_manifest, write_manifest
from engine.children import ROOT, child_environment
from engine.models.door import check_door, count_bytes, find_templates
from engine.models.registry import EMBEDDED, check_safetensors, check_weights_folder
from engine.models.template_trial import Talk, Trial, draw_talks, try_template

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
CHILD = "engine.models.load_child"
LOAD_SECONDS = 300.0
SPARE_BYTES = 1024**3
ADDING = "adding-"  # begins the name of a folder there that is being taken in
DOWNLOADS = ".downloads"  # beside the models, on their disk; no model has such a name
CHUNK = 16 * 1024 * 1024
LEAST_SHARE = 0.97  # of a model's numbers must be in its files; tied ones may be there once

Say = Callable[[str], None]
Progress = Callable[[int, int], None]


@dataclass(kw_only=True, slots=True, frozen=True)
class Wanted:
    """A base model to be: its name, the folder it is in, and where that folder came from.

    `origin` is noted in its manifest: `source` in words and, from a hub, `hub` and `hub_revision`.
    """

    name: str
    folder: Path
    origin: Mapping[str, str]
    link: bool = False  # hard links in the place of copies, on one file system


def add_base(
    models: Path,
    wanted: Wanted,
    say: Say = lambda text: None,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Take a base model in; what is in its manifest's note, with its name and size.

    Everything is checked before the copy, and what was copied once more before it is renamed into
    place, so that a folder which changes meanwhile cannot slip in. ValueError names what is wrong and
    what to do; nothing is left then.
    """
    check_name(models, wanted.name)
    files = check_door(wanted.folder, say)
    found = describe_folder(wanted.folder, files)
    about = {**wanted.origin, "licence": licence_of(wanted.folder), **found}
    total = count_bytes(files)
    check_room(models, 0 if wanted.link else total)
    with unfinished(models, f"{ADDING}{wanted.name}") as aside:
        copy(files, wanted.folder, aside, wanted.link, progress)
        say(f"{'in place' if wanted.link else 'copied'}; reading it once more, for its hashes")
        check_door(aside)
        try_templates(aside, draw_talks())
        content = write_manifest(aside, about)
        check_weights_folder(aside)
        check_name(models, wanted.name)
        publish(aside, models / wanted.name)
    return {**about, "name": wanted.name, "revision": content[:16], "bytes": total}


@contextlib.contextmanager
def unfinished(models: Path, name: str) -> Iterator[Path]:
    """An empty folder to work in, for one command at a time, gone afterwards.

    It is out of the way of a server that starts meanwhile and clears what a dead one left.
    """
    place = models / DOWNLOADS
    place.mkdir(parents=True, exist_ok=True)
    aside = place / name
    with alone(place / f"{name}.lock", f"another command is adding {name} already: wait for it"):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def alone(lock_file: Path, otherwise: str) -> Iterator[None]:
    """Hold a file's lock; ValueError with that text when another process has it."""
    with open(lock_file, "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(otherwise) from None
        yield


def licence_of(folder: Path) -> str | None:
    """What the model's README states at its top, as hubs have it."""
    try:
        top = (folder / "README.md").read_text(encoding="utf-8", errors="replace")[:4096]
    except OSError:
        return None
    stated = re.search(r"^license(?:_name)?:\s*['\"]?([\w.+-]{1,60})", top, re.MULTILINE)
    return stated.group(1) if stated else None


def check_name(models: Path, name: str) -> None:
    """ValueError when a base model cannot have this name."""
    if not NAME.fullmatch(name) or ".tmp-" in name:
        raise ValueError(f"{name!r} is not a model name: use letters, digits, '.', '-', '_'")
    taken = {folder.name.lower(): folder.name for folder in models.glob("*") if folder.is_dir()}
    clash = EMBEDDED if name.lower() == EMBEDDED.lower() else taken.get(name.lower())
    if clash:
        raise ValueError(
            f"there is a base model {clash} already: choose another name, or remove that one "
            f"first with python3 run.py model remove-base {clash}"
        )


def check_room(models: Path, need: int) -> None:
    """ValueError when so many bytes and a spare GiB do not fit on the disk of the models."""
    models.mkdir(parents=True, exist_ok=True)
    found = room(models)
    if found.free < need + SPARE_BYTES:
        raise ValueError(
            f"it needs {(need + SPARE_BYTES) / 1e9:.1f} GB and {models} has {found}: free some "
            "space there, or set PAWL_HOME to a larger disk"
        )


def copy(files: Sequence[Path], folder: Path, aside: Path, link: bool, progress: Progress) -> None:
    """Copy files to where they are kept, or link them; `progress` hears bytes done and in all."""
    total, done = count_bytes(files), 0
    for path in files:
        target = aside / path.relative_to(folder)
        target.parent.mkdir(exist_ok=True)
        if link and _linked(path, target):
            done += target.stat().st_size
            progress(done, total)
            continue
        with open(path, "rb") as source, open(target, "xb") as out:
            while chunk := source.read(CHUNK):
                out.write(chunk)
                done += len(chunk)
                progress(done, total)


def remove_base(models: Path, name: str) -> int:
    """Delete a base model; the bytes that are free again. ValueError when there is none."""
    folder = models / name
    if not NAME.fullmatch(name) or not (folder / MANIFEST).is_file():
        there = ", ".join(one["name"] for one in describe_bases(models)) or "none yet"
        raise ValueError(f"there is no base model {name}; there are: {there}")
    size = count_bytes([path for path in folder.rglob("*") if path.is_file()])
    # Renamed first: a half-deleted folder must not look like a broken model.
    aside = models / f"{name}.tmp-{uuid.uuid4().hex[:8]}"
    os.rename(folder, aside)
    shutil.rmtree(aside)
    return size


def describe_bases(models: Path) -> list[dict[str, Any]]:
    """Every base model by name with what its manifest says, without reading its weights."""
    found = []
    for folder in sorted(models.glob("*")) if models.is_dir() else ():
        with contextlib.suppress(ValueError, OSError):
            record = read_manifest(folder)
            size = sum(int(file["bytes"]) for file in record["files"].values())
            about = {name: record["about"].get(name) for name in ("source", "parameters")}
            named = {"name": folder.name, "revision": record["content"][:16], "bytes": size}
            found.append(named | about)
    return found


def load_trial(folder: Path, talk: Talk) -> dict[str, Any]:
    """What transformers makes of a folder, in a child; ValueError when it cannot load it.

    Its tokenizer renders `talk` up to where the answer begins.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", CHILD, str(folder)],
            input=json.dumps(talk[:2]).encode(),
            capture_output=True,
            timeout=LOAD_SECONDS,
            cwd=ROOT,
            env=child_environment(),
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"config and tokenizer did not load in {LOAD_SECONDS:.0f} s") from None
    try:
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ValueError(f"loading its config ended with {done.returncode}: {last}") from None
    if "error" in told:
        raise ValueError(
            f"transformers cannot load it, {told['error']}: take a model of an architecture that "
            "the installed transformers knows"
        )
    return told


def try_templates(folder: Path, talks: Sequence[Talk]) -> Trial:
    """Render every chat template of a folder; what the one that is used made of the first talk."""
    path = folder / "tokenizer_config.json"
    tokens = json.loads(path.read_bytes()) if path.exists() else {}
    trials = {}
    for name, template in find_templates(folder).items():
        trials[name] = try_template(str(folder / name), template, tokens, talks)
    first = "chat_template.jinja"
    return trials[first] if first in trials else next(iter(trials.values()))


def describe_folder(folder: Path, files: Sequence[Path]) -> dict[str, Any]:
    """What a folder holds, tried out in children: its templates, its config, its tokenizer.

    Without weights among the files, these are left to be counted later.
    """
    talks = draw_talks()
    trial = try_templates(folder, talks)
    told = load_trial(folder, talks[0])
    if told["text"] != trial.text:
        raise ValueError(
            f"{folder}: the tokenizer renders another template than the one that was tried: keep "
            "one chat template, chat_template.jinja"
        )
    if any(path.suffix == ".safetensors" for path in files):
        _check_numbers(files, told)
    kept = ("architecture", "model_type", "parameters", "context", "linears", "fused")
    return {name: told[name] for name in kept}


def _check_numbers(files: Sequence[Path], told: dict[str, Any]) -> None:
    there = sum(_numbers(path) for path in files if path.suffix == ".safetensors")
    if there < LEAST_SHARE * told["parameters"]:
        raise ValueError(
            f"the weights hold {there / 1e9:.3f} of the {told['parameters'] / 1e9:.3f} billion "
            f"numbers of a {told['architecture']}: a part is missing, fetch the model again"
        )
    if told["largest_id"] >= told["vocabulary"]:
        raise ValueError(
            "the tokenizer has more tokens than the model: they do not belong together"
        )


def _numbers(path: Path) -> int:
    check_safetensors(path)
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    shapes = [item["shape"] for name, item in header.items() if name != "__metadata__"]
    count = 0
    for shape in shapes:
        numbers = 1
        for length in shape:
            numbers *= int(length)
        count += numbers
    return count


def _linked(path: Path, target: Path) -> bool:
    """Whether a hard link could be made; another file system takes a copy."""
    try:
        os.link(path.resolve(), target)
    except OSError:
        return False
    return True
