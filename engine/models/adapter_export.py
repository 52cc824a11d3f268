"""Hands an adapter out: as a folder that PEFT loads anywhere, or merged into its base."""

import json
import os
import shutil
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from data.disk import is_full, room
from data.files import publish, read_manifest, write_manifest
from engine.children import end_child, start_child
from engine.models.adapter_check import CONFIG, WEIGHTS, read_header
from engine.models.merge import CARD, DTYPES, REFUSED, clear_leftovers
from engine.models.origin import origin_of
from engine.models.registry import DTYPE_BITS, check_safetensors, check_weights_folder
from engine.types import ModelRef

SPARE_BYTES = 200_000_000


def export_adapter(adapter: Path, base: ModelRef, target: Path, card: str) -> int:
    """Write the adapter with a card at `target`, whole or not at all; bytes written.

    Its config names the base as it is called elsewhere, where that is known. ValueError or
    ModelUnavailable when it cannot be done.
    """
    about = _checked(adapter)
    _check_target(target, sum(path.stat().st_size for path in adapter.iterdir()))
    aside = target.with_name(f"{target.name}.tmp-{uuid.uuid4().hex[:8]}")
    aside.mkdir()
    try:
        shutil.copyfile(adapter / WEIGHTS, aside / WEIGHTS)
        config = json.loads((adapter / CONFIG).read_bytes())
        origin = origin_of(Path(base.path))
        config["base_model_name_or_path"] = origin.name
        if origin.revision is not None:
            config["revision"] = origin.revision
        (aside / CONFIG).write_text(json.dumps(config, indent=1, sort_keys=True))
        (aside / CARD).write_text(card, encoding="utf-8")
        write_manifest(aside, about | {"exported_from": adapter.name})
        size = sum(path.stat().st_size for path in aside.iterdir())
        publish(aside, target)
    except OSError as error:
        raise _no_room(error, target) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return size


def export_files(adapter: Path, target: Path) -> int:
    """Copy the files as they are, hashes checked before and after; bytes written."""
    check_weights_folder(adapter, f"Put {adapter} back from a backup")
    _check_target(target, sum(path.stat().st_size for path in adapter.iterdir()))
    aside = target.with_name(f"{target.name}.tmp-{uuid.uuid4().hex[:8]}")
    try:
        shutil.copytree(adapter, aside)
        check_weights_folder(aside, "The copy is not as the original: try it again")
        size = sum(path.stat().st_size for path in aside.iterdir())
        publish(aside, target)
    except OSError as error:
        raise _no_room(error, target) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return size


def export_merged(
    adapter: Path, base: ModelRef, target: Path, card: str, log: Path, dtype: str | None = None
) -> int:
    """Write base and adapter as one model at `target`, made by a child; bytes written.

    `dtype` is the precision that the adapter was trained and measured in where None is given, and
    of one that was brought here that of the base's own weights.
    """
    about = _checked(adapter)
    check_weights_folder(Path(base.path))
    dtype = dtype or merged_dtype(adapter, base)
    _check_target(target, _merged_bytes(Path(base.path), dtype))
    order = {
        "base": base.path,
        "adapter": str(adapter),
        "target": str(target),
        "dtype": dtype,
        "card": card,
        "about": {
            "name": target.name,
            "merged_from": [f"{base.base}@{base.revision}", adapter.name],
            "licence": read_manifest(Path(base.path))["about"].get("licence"),
            "trained_in": about.get("precision"),
        },
    }
    try:
        with tempfile.TemporaryDirectory(prefix="pawl-merge-") as folder:
            file = Path(folder) / "order.json"
            file.write_text(json.dumps(order))
            _in_child([sys.executable, "-m", "engine.models.merge", str(file)], log)
    finally:  # a child that was ended had no time for it
        clear_leftovers(target)
    check_weights_folder(target)
    return sum(path.stat().st_size for path in target.iterdir())


def check_made_for(adapter: Path, base: ModelRef) -> None:
    """ValueError when an adapter was made for other weights than the base has now."""
    made_for = read_manifest(adapter)["about"].get("base_revision")
    if made_for not in (None, base.revision):
        raise ValueError(
            f"adapter {adapter.name} was made for {base.base} at revision {made_for}, and it is "
            f"{base.revision} here now: put that base back, then try again"
        )


def merged_dtype(adapter: Path, base: ModelRef) -> str:
    """The precision in which a merged model answers as base and adapter did."""
    trained = read_manifest(adapter)["about"].get("precision")
    if trained in DTYPES:
        return str(trained)
    kinds = {item["dtype"] for item in _weights(Path(base.path))}
    return next((name for name, kind in DTYPES.items() if kind in kinds), "bfloat16")


def _checked(adapter: Path) -> dict[str, Any]:
    check_weights_folder(adapter, f"Put {adapter} back from a backup")
    about: dict[str, Any] = read_manifest(adapter)["about"]
    if not (adapter / WEIGHTS).is_file():
        raise ValueError(f"{adapter.name} is simulated: it has no weights to export")
    return about


def _check_target(target: Path, need: int) -> None:
    # A folder cannot be renamed to either of these, however empty they are.
    if target.is_symlink() or os.path.ismount(target):
        what = "a link" if target.is_symlink() else "a mount point"
        raise ValueError(f"--out: {target} is {what}: name a new folder inside it")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"--out: {target} is there already: name a folder that is not")
    target.parent.mkdir(parents=True, exist_ok=True)
    found = room(target.parent)
    if found.free < need + SPARE_BYTES:
        raise ValueError(f"--out: {need / 1e9:.1f} GB are needed and {target.parent} has {found}")


def _merged_bytes(base: Path, dtype: str) -> int:
    """How large the merged model is at most."""
    others = sum(path.stat().st_size for path in base.iterdir() if path.suffix != ".safetensors")
    return others + sum(_bytes_as(item, DTYPE_BITS[DTYPES[dtype]]) for item in _weights(base))


def _bytes_as(item: dict[str, Any], bits: int) -> int:
    start, end = item["data_offsets"]
    before = DTYPE_BITS[item["dtype"]]
    return int(end - start) * max(bits, before) // before


def _weights(base: Path) -> list[dict[str, Any]]:
    """What the headers of a base's files say of each tensor."""
    found: list[dict[str, Any]] = []
    for path in sorted(base.glob("*.safetensors")):
        check_safetensors(path)
        found += read_header(path).values()
    return found


def _in_child(command: list[str], log: Path) -> None:
    process, info = start_child(command, log)
    try:
        code = process.wait()
    except BaseException:
        end_child(info)
        process.wait()
        raise
    if code == 0:
        return
    last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
    if last.startswith(REFUSED):
        raise ValueError(last.removeprefix(REFUSED))
    raise ValueError(f"merging failed (exit {code}); the reason is at the end of {log}")


def _no_room(error: OSError, target: Path) -> Exception:
    if is_full(error):
        return ValueError(f"--out: the disk of {target} is full: free some space, then try again")
    return ValueError(f"--out: {target} cannot be written: {error.strerror}")
