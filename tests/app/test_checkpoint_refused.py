"""Adapters that are not taken in: each is refused by name, and nothing of it stays in the home."""

import errno
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app import checkpoint_import
from app.administration import LOCAL_OWNER
from app.errors import Conflict
from data.disk import Room
from data.files import write_manifest
from data.home import Home
from engine.models import adapter_import
from engine.models.adapter_check import LARGEST_RANK
from engine.types import ModelRef
from tests.adapters import MODULES, RANK, lay_adapter
from tests.app.checkpoint_desk import Here

FIRST = "base_model.model.model.layers.0.self_attn.q_proj"


@pytest.fixture
def here(home: Home, tiny: ModelRef, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(home, tiny, capsys)


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def cut(folder: Path) -> None:
    file = folder / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def empty(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (write("adapter_model.bin", b"\x80\x02x"), "adapter_model.bin is pickled"),
        (write("training_args.bin", b"PK\x03\x04"), "training_args.bin is pickled"),
        (write("notes.txt", b"\x80\x04x"), "notes.txt is pickled"),
        (write("modeling_own.py", b"import os"), "modeling_own.py is program code"),
        (cut, "adapter_model.safetensors has .* bytes and its header asks for"),
        (empty, "is empty: name the folder that holds adapter_config.json"),
        (write("adapter_config.json", b"[]"), "is not the JSON of an adapter's configuration"),
        (write("adapter_config.json", b"[" * 200_000), "is not the JSON of an adapter's"),
        (
            write(
                "adapter_config.json",
                b'{"base_model_name_or_path":' + b"[" * 900 + b"]" * 900 + b"}",
            ),
            "is not the JSON of an adapter's",
        ),
        (write("adapter_config.json", b"\x80\x04"), "adapter_config.json is pickled"),
        (lambda folder: (folder / "adapter_config.json").unlink(), "has no adapter_config.json"),
        (lambda f: (f / "adapter_model.safetensors").unlink(), "has no adapter_model.safetensors"),
    ],
)
def test_files_that_are_not_a_plain_adapter_are_refused_by_name(
    here: Here, tiny: ModelRef, tmp_path: Path, do: Callable[[Path], object], says: str
) -> None:
    folder = lay_adapter(tmp_path / "given", tiny)
    do(folder)
    refuse(here, folder, says)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"auto_map": {"AutoModel": "own.Model"}}, "code of its own to be loaded .auto_map"),
        ({"use_dora": True}, "has use_dora: only a plain LoRA can be served"),
        ({"use_rslora": True}, "has use_rslora"),
        ({"modules_to_save": ["lm_head"]}, "has modules_to_save"),
        ({"bias": "lora_only"}, "has bias"),
        ({"rank_pattern": {"q_proj": 8}}, "has rank_pattern"),
        ({"init_lora_weights": "pissa_niter_4"}, "pissa_niter_4, which changes the base"),
        ({"auto_mapping": {"parent_library": "own.code"}}, "auto_mapping to own.code"),
        ({"auto_mapping": {"parent_library": 5}}, "auto_mapping to 5"),
        ({"auto_mapping": "own"}, "auto_mapping to own"),
        ({"peft_type": "IA3"}, "'IA3' is no LoRA adapter"),
        ({"r": LARGEST_RANK + 1}, f"rank {LARGEST_RANK + 1} is above {LARGEST_RANK}"),
        ({"r": "8"}, "r is '8' and must be a whole number"),
        ({"lora_alpha": None}, "lora_alpha is None and must be a number"),
        ({"target_modules": ["q_proj"]}, "target_modules .* lacks down_proj, v_proj: write"),
        ({"target_modules": [*MODULES, "k_proj"]}, "target_modules names k_proj"),
        ({"target_modules": ".*proj"}, "target_modules must list"),
        ({"r": 2 * RANK}, "this adapter is of another base"),
    ],
)
def test_an_adapter_that_could_not_be_served_is_refused_by_name(
    here: Here, tiny: ModelRef, tmp_path: Path, config: dict[str, Any], says: str
) -> None:
    refuse(here, lay_adapter(tmp_path / "given", tiny, config=config), says)


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ({f"{FIRST}.lora_A.weight": (RANK, 31)}, "layers.0.self_attn.q_proj is .* of another base"),
        ({f"{FIRST}.lora_B.weight": None}, "q_proj has one matrix of two"),
        ({f"{FIRST}.lora_magnitude_vector": (32,)}, "lora_magnitude_vector is not one of a plain"),
        ({f"{FIRST}.bias": (32,)}, "q_proj.bias is not one of a plain LoRA"),
        (
            {
                f"base_model.model.model.layers.7.self_attn.q_proj.lora_{m}.weight": (4, 4)
                for m in "AB"
            },
            "tiny has no linear layer model.layers.7.self_attn.q_proj: .* of another base",
        ),
        (
            {f"base_model.model.lm_head.lora_{m}.weight": (4, 4) for m in "AB"},
            "lm_head cannot be served with an adapter",
        ),
    ],
)
def test_tensors_that_are_not_of_this_base_are_refused_by_name(
    here: Here, tiny: ModelRef, tmp_path: Path, tensors: dict[str, Any], says: str
) -> None:
    import torch

    given = {name: shape and torch.ones(shape) for name, shape in tensors.items()}
    refuse(here, lay_adapter(tmp_path / "given", tiny, tensors=given), says)


def test_weights_that_change_nothing_or_are_no_numbers_are_refused(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    import torch

    idle = lay_adapter(tmp_path / "idle", tiny, strength=0.0)
    refuse(here, idle, "every lora_B is zero")
    broken = torch.full((RANK, 32), 1.0)
    broken[1, 3] = float("nan")
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        name = f"{kind}".removeprefix("torch.")
        over = {f"{FIRST}.lora_A.weight": broken.to(kind)}
        folder = lay_adapter(tmp_path / name, tiny, tensors=over)
        refuse(here, folder, "q_proj.lora_A.weight holds infinite numbers or none")


def test_an_adapter_of_a_base_of_the_same_shapes_is_known_by_its_own_manifest(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    here.worked("import", str(lay_adapter(tmp_path / "given", tiny)), "--base", "tiny")
    (item,) = here.service().checkpoints(LOCAL_OWNER).items
    here.worked("export", item.checkpoint_id, "--out", str(tmp_path / "out"))
    twin = here.home.models / "twin"
    shutil.copytree(tiny.path, twin)
    manifest = json.loads((twin / "manifest.json").read_text())
    assert manifest["content"].startswith(tiny.revision)
    (twin / "extra.json").write_text("{}")
    write_manifest(twin)
    refuse(here, tmp_path / "out", "made for tiny at revision .*, and twin is", base="twin")
    (tmp_path / "out" / "README.md").write_text("changed")
    refuse(here, tmp_path / "out", "README.md has .* bytes and its manifest says")


def test_a_base_or_folder_that_is_not_there_is_said(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    refuse(here, lay_adapter(tmp_path / "given", tiny), "no base model big here", base="big")
    refuse(here, tmp_path / "typo", "there is no folder .*typo")


def test_a_disk_that_fills_up_in_the_middle_leaves_nothing(
    here: Here, tiny: ModelRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        target.write_bytes(b"a part")
        raise OSError(errno.ENOSPC, "No space left on device")

    given = lay_adapter(tmp_path / "given", tiny)
    monkeypatch.setattr(shutil, "copyfile", full)
    refuse(here, given, "the disk is full: free some space")
    monkeypatch.undo()
    little = Room(total=10**9, used=10**9, free=1000)
    monkeypatch.setattr(adapter_import, "room", lambda _: little)
    refuse(here, given, "GB are needed and")


def test_what_the_tables_refuse_leaves_no_folder(
    here: Here, tiny: ModelRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise Conflict("no more")

    monkeypatch.setattr(checkpoint_import, "record", refused)
    refuse(here, lay_adapter(tmp_path / "given", tiny), "no more")


def refuse(here: Here, folder: Path, says: str, base: str = "tiny") -> None:
    """It is refused with these words, and nothing of it stays in the home."""
    before = sorted(path.name for path in here.home.checkpoints.iterdir())
    code, out, err = here.type("import", str(folder), "--base", base)
    assert (code, out) == (1, "")
    assert re.search(says, err), err
    assert sorted(path.name for path in here.home.checkpoints.iterdir()) == before
