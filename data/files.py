"""Writing files and folders so that they are there whole, or not at all, after a power cut."""

import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data import crash

MANIFEST = "manifest.json"


def write_durable(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: readers see the old content or the new, never a part."""
    aside = path.with_name(f"{path.name}.tmp-{uuid.uuid4().hex[:8]}")
    try:
        with open(aside, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        crash.point("before_rename")
        os.replace(aside, path)
        crash.point("after_rename")
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def publish(tmp_dir: Path, final_dir: Path) -> None:
    """Rename a finished folder into place, everything in it on disk first.

    When a finished `final_dir` is there already it is kept and `tmp_dir` is removed: folders
    published this way are named by content, or made under a lock, so that a second one holds
    nothing new. An OSError says that nothing was put in place; `tmp_dir` is gone then too.
    """
    for path in tmp_dir.rglob("*"):
        if path.is_dir():
            fsync_folder(path)
        else:
            _fsync_file(path)
    fsync_folder(tmp_dir)
    try:
        crash.point("before_publish")
        os.rename(tmp_dir, final_dir)
        crash.point("after_publish")
    except OSError:
        shutil.rmtree(tmp_dir, ignore_errors=True)
        if not (final_dir / MANIFEST).is_file():
            raise
    fsync_folder(final_dir.parent)


def remove_unfinished(home: Path) -> None:
    """Remove what a process that died was still writing; only for who holds the home's lock."""
    for place in (".", "models", "checkpoints", "runs/*", "runs/*/train-*", "jobs/*"):
        for left in home.glob(f"{place}/*.tmp-*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def write_manifest(folder: Path, about: Mapping[str, Any] | None = None) -> str:
    """List every file of `folder` with size and SHA-256 in manifest.json; returns the content hash.

    Written last: a folder without a manifest is not finished. The content hash (64 hex digits)
    covers names and contents of the files, and not `about`, which is a free note such as the run.
    """
    files = {name: _describe(folder / name) for name in _names(folder)}
    content = _content_hash(files)
    record = {"content": content, "files": files, "about": dict(about or {})}
    write_durable(folder / MANIFEST, json.dumps(record, indent=1, sort_keys=True).encode())
    return content


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest as written, without looking at the files it names; ValueError when unusable."""
    path = folder / MANIFEST
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        if record["content"] != _content_hash(record["files"]):
            raise ValueError(f"{path} was changed after it was written")
    except FileNotFoundError:
        raise ValueError(f"{path} is missing, so {folder} was never finished") from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        raise ValueError(f"{path} is not a manifest") from None
    return record


def verify_manifest(folder: Path) -> str:
    """The content hash of a folder whose files are all as its manifest says.

    ValueError names the first file that is missing, cut short, changed, or not in the manifest.
    """
    record = read_manifest(folder)
    listed: dict[str, dict[str, Any]] = record["files"]
    found = _names(folder)
    for name in sorted({*listed, *found}):
        _check_file(folder / name, listed.get(name), name in found)
    return str(record["content"])


def _check_file(path: Path, expected: dict[str, Any] | None, there: bool) -> None:
    if expected is None:
        raise ValueError(f"{path} is not in the manifest of its folder")
    if not there:
        raise ValueError(f"{path} is missing")
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise ValueError(f"{path} has {size} bytes and its manifest says {expected['bytes']}")
    if _describe(path) != expected:
        raise ValueError(f"{path} differs from the SHA-256 in its manifest")


def fsync_folder(path: Path) -> None:
    """Make the names in a folder (new, renamed, removed) survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_locked(lock_file: Path) -> bool:
    """Whether a process holds the lock of this file at present."""
    try:
        with open(lock_file, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _fsync_file(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _names(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix() for path in files)
    return sorted(name for name in names if name != MANIFEST)


def _describe(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _content_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"{name} {files[name]['sha256']}\n" for name in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
