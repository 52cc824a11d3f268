"""Takes an adapter from elsewhere into the checkpoints: copied, checked, named by content."""

import os
import shutil
import stat
import uuid
from pathlib import Path
from typing import Any

from data.disk import room
from data.files import MANIFEST, publish, read_manifest, verify_manifest, write_manifest
from engine.identity import harness_hash, version_hash
from engine.models.adapter_check import CONFIG, WEIGHTS, AdapterFacts, check_adapter, check_names
from engine.models.registry import list_bases
from engine.types import Harness, ModelRef, as_dict

SPARE_BYTES = 100_000_000
PLAIN_HARNESS = Harness(system="", max_tokens=512)  # nothing is known of how it wants to be asked


def take(folder: Path, checkpoints: Path, base: ModelRef) -> dict[str, Any]:
    """Copy an adapter into `checkpoints` under the hash of its content, whole or not at all.

    Gives plain facts: id, base, base_revision, size, rank, alpha, modules, `left` (names that were
    not taken), `claims` (the base that its config names), `new` (false when it was there already),
    and the harness and version hash under which it is known. ValueError says what is refused, why,
    and what to do; the folder it comes from is only read.
    """
    left = check_names(folder)
    _check_own_manifest(folder, base)
    _check_room(folder, checkpoints)
    aside = checkpoints / f"adapter.tmp-{uuid.uuid4().hex[:8]}"
    aside.mkdir()
    try:
        for name in (CONFIG, WEIGHTS):
            _copy(folder / name, aside / name)
        facts = check_adapter(aside, Path(base.path))
        name, new = _publish(aside, checkpoints, base, facts)
    except FileNotFoundError as gone:
        raise ValueError(f"{gone.filename} went away in the middle: try it again") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return _facts(checkpoints / name, base, facts) | {"left": left, "new": new}


def find_own_base(models: Path, name: str) -> ModelRef:
    """A base that is there, by its manifest; its weights' headers alone are looked at later."""
    if name not in list_bases(models):
        there = ", ".join(list_bases(models)) or "none yet"
        raise ValueError(f"--base: there is no base model {name} here; there are: {there}")
    revision = str(read_manifest(models / name)["content"])[:16]
    return ModelRef(base=name, path=str(models / name), revision=revision)


def _check_own_manifest(folder: Path, base: ModelRef) -> None:
    """Where the folder was exported by Pawl, it must be whole and made for this very base."""
    if not (folder / MANIFEST).is_file():
        return
    try:
        about = read_manifest(folder)["about"]
    except ValueError:
        return  # another program's file of that name
    verify_manifest(folder)
    made_for = about.get("base_revision")
    if made_for not in (None, base.revision):
        raise ValueError(
            f"{folder / MANIFEST}: this adapter was made for {about.get('base')} at revision "
            f"{made_for}, and {base.base} is {base.revision} here: name the right base with --base"
        )


def _check_room(folder: Path, checkpoints: Path) -> None:
    need = sum((folder / name).stat().st_size for name in (CONFIG, WEIGHTS))
    found = room(checkpoints)
    if found.free < need + SPARE_BYTES:
        raise ValueError(f"{need / 1e9:.1f} GB are needed and {checkpoints} has {found}")


def _copy(source: Path, target: Path) -> None:
    """Copy a plain file, following a link; a pipe or device would never end."""
    if not stat.S_ISREG(os.stat(source).st_mode):
        raise ValueError(f"{source} is not a plain file")
    shutil.copyfile(source, target)


def _publish(
    aside: Path, checkpoints: Path, base: ModelRef, facts: AdapterFacts
) -> tuple[str, bool]:
    settings = {"rank": facts.rank, "alpha": facts.alpha, "target_modules": facts.modules}
    about = {"base": base.base, "base_revision": base.revision, "imported": True}
    content = write_manifest(aside, about | {"settings": settings})
    final = checkpoints / content[:16]
    if not final.is_dir():
        publish(aside, final)
        return final.name, True
    made_for = read_manifest(final)["about"].get("base_revision")
    if made_for != base.revision:
        raise ValueError(f"this adapter is here already as {final.name}, for base {made_for}")
    return final.name, False


def _facts(folder: Path, base: ModelRef, facts: AdapterFacts) -> dict[str, Any]:
    model = ModelRef(
        base=base.base,
        path=base.path,
        revision=base.revision,
        adapter=str(folder),
        adapter_hash=folder.name,
    )
    return {
        "id": folder.name,
        "base": base.base,
        "base_revision": base.revision,
        "size": sum(path.stat().st_size for path in folder.iterdir()),
        "rank": facts.rank,
        "alpha": facts.alpha,
        "modules": facts.modules,
        "claims": facts.claims,
        "harness": {"id": harness_hash(PLAIN_HARNESS), "spec": as_dict(PLAIN_HARNESS)},
        "version_hash": version_hash(model, PLAIN_HARNESS),
    }
