"""Base models by name: where they are, and whether they may be used.

A base model is a folder `models/<name>/` with safetensors weights, a tokenizer with a chat
template, and a manifest. Pickled weights and code are refused, whatever their names say.
"""

import fcntl
import hashlib
import json
import math
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data.files import MANIFEST, read_manifest, verify_manifest
from engine.children import end_child, start_child
from engine.errors import ModelUnavailable
from engine.types import ModelRef

EMBEDDED = "SmolLM2-135M-Instruct"
REFUSED_SUFFIXES = (".bin", ".pt", ".pkl", ".pth", ".ckpt")
PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
TEMPLATE_BYTES = 64 * 1024
HEADER_BYTES = 100_000_000
CONVERT_SECONDS = 600.0
DTYPE_BITS = dict.fromkeys(("F64", "I64", "U64"), 64)
DTYPE_BITS |= dict.fromkeys(("F32", "I32", "U32"), 32)
DTYPE_BITS |= dict.fromkeys(("F16", "BF16", "I16", "U16"), 16)
DTYPE_BITS |= dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"), 8)


def find_base(models_dir: Path, name: str) -> ModelRef:
    """The base model of that name, verified whole; `revision` names its contents (16 hex digits).

    ModelUnavailable says which file is wrong and what to do.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ModelUnavailable(f"{name!r} is not a model name: use letters, digits, '.', '-', '_'")
    folder = models_dir / name
    if not folder.is_dir():
        there = ", ".join(list_bases(models_dir)) or "none yet"
        raise ModelUnavailable(f"there is no base model {name} in {models_dir}; it has: {there}")
    return ModelRef(base=name, path=str(folder), revision=check_weights_folder(folder)[:16])


def list_bases(models_dir: Path) -> list[str]:
    """Names of the finished base models, without reading their weights."""
    if not models_dir.is_dir():
        return []
    return sorted(folder.name for folder in models_dir.iterdir() if (folder / MANIFEST).is_file())


def with_adapter(base: ModelRef, folder: Path) -> ModelRef:
    """The base with an adapter on it; ModelUnavailable when incomplete or made for another base."""
    content = check_weights_folder(folder, put_back(folder))
    about = read_manifest(folder)["about"]
    made_for = about.get("base_revision")
    if made_for != base.revision:
        raise ModelUnavailable(
            f"adapter {folder} was trained on base revision {made_for} and does not fit "
            f"{base.base} at {base.revision}: train it again on this base"
        )
    return ModelRef(
        base=base.base,
        path=base.path,
        revision=base.revision,
        adapter=str(folder),
        adapter_hash=content[:16],
    )


def put_back(adapter: Path) -> str:
    """What to do about an adapter that is missing or broken."""
    return f"Put {adapter} back from a backup, then resume"


def ensure_embedded(models_dir: Path, gguf: Path, gguf_sha256: str | None = None) -> ModelRef:
    """The embedded base model, made from its GGUF file by a child process when it is not there.

    One that is broken is made again. ModelUnavailable when the GGUF file is missing, or is not the
    one that `gguf_sha256` names. Safe to call from several threads and processes at once: one
    converts, the others wait.
    """
    models_dir.mkdir(parents=True, exist_ok=True)
    target = models_dir / EMBEDDED
    with open(models_dir / ".convert.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return find_base(models_dir, EMBEDDED)
        except ModelUnavailable:
            _check_gguf(gguf, gguf_sha256)
            shutil.rmtree(target, ignore_errors=True)
        _convert_in_child(gguf, target)
    return find_base(models_dir, EMBEDDED)


def _check_gguf(gguf: Path, sha256: str | None) -> None:
    """Refuse a source that is missing or damaged, before anything is deleted for it."""
    mend = "stop Pawl, run python3 run.py again, so that set-up fetches it, then resume"
    if not gguf.is_file():
        raise ModelUnavailable(f"the embedded model's file {gguf} is missing: {mend}")
    with open(gguf, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != (sha256 or found):
        raise ModelUnavailable(f"the embedded model's file {gguf} is damaged: delete it, {mend}")


def _convert_in_child(gguf: Path, target: Path) -> None:
    log = target.parent / "convert.log"
    command = [sys.executable, "-m", "engine.models.embedded", str(gguf), str(target)]
    process, info = start_child(command, log)
    try:
        code = process.wait(timeout=CONVERT_SECONDS)
    except BaseException:
        end_child(info)
        process.wait()
        raise
    if code != 0:
        raise ModelUnavailable(
            f"converting the embedded model failed (exit {code}); the reason is at the end of {log}"
        )


def check_weights_folder(folder: Path, mend: str | None = None) -> str:
    """The content hash of a folder of weights that may be loaded; else ModelUnavailable.

    `mend` is what its text tells people to do.
    """
    try:
        if not folder.is_dir():
            raise ValueError(f"{folder} is missing")
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            check_file(path)
        return verify_manifest(folder)
    except ValueError as error:
        mend = mend or f"Delete the folder {folder} and fetch or make it again, then resume"
        raise ModelUnavailable(f"{error}. {mend}") from None


def check_file(path: Path) -> None:
    """ValueError when a file must not be in a folder of weights, or is not what its name says."""
    if path.suffix == ".py":
        raise ValueError(f"{path} is program code, which a model folder must not hold")
    if path.suffix in REFUSED_SUFFIXES or _starts_like_pickle(path):
        raise ValueError(f"{path} is not safetensors: pickled weights can run code when loaded")
    if path.suffix == ".safetensors":
        check_safetensors(path)
    elif path.suffix == ".json":
        _check_json(path)
    elif path.suffix == ".jinja" and path.stat().st_size > TEMPLATE_BYTES:
        raise ValueError(f"{path} is a chat template of more than {TEMPLATE_BYTES} bytes")


def _starts_like_pickle(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4).startswith(PICKLE_STARTS)


def _check_json(path: Path) -> None:
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not JSON") from None
    if path.name.endswith("config.json") and "auto_map" in _keys(record):
        raise ValueError(f"{path} asks for code of its own to be loaded (auto_map)")


def _keys(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def check_safetensors(path: Path) -> set[str]:
    """Names of the tensors in a safetensors file.

    ValueError when it is cut short, padded, or its header does not add up.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(HEADER_BYTES, size - 8):
            raise ValueError(f"{path} is cut short: {size} bytes do not hold its header")
        raw = file.read(length)
    try:
        header = json.loads(raw)
        end = _last_byte(item for name, item in header.items() if name != "__metadata__")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path} has an unreadable header") from None
    if size != 8 + length + end:
        raise ValueError(f"{path} has {size} bytes and its header asks for {8 + length + end}")
    return {name for name in header if name != "__metadata__"}


def _last_byte(items: Iterator[dict[str, Any]]) -> int:
    """Where the tensors end, each of which begins where the one before it ends."""
    last = 0
    for start, end in sorted(_offsets(item) for item in items):
        if start != last:
            raise ValueError("tensors lie over each other, or apart")
        last = end
    return last


def _offsets(item: dict[str, Any]) -> tuple[int, int]:
    start, end = item["data_offsets"]
    if any(type(one) is not int or one < 0 for one in (start, end, *item["shape"])):
        raise ValueError("a tensor's offsets or shape are no whole numbers")
    if end - start != math.prod(item["shape"]) * DTYPE_BITS[item["dtype"]] // 8:
        raise ValueError("a tensor's offsets do not match its shape")
    return start, end
