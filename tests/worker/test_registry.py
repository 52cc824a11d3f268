"""Which folders are accepted as base models, and what is said of the others."""

import json
import pickle
import zipfile
from pathlib import Path

import pytest

from data.files import write_manifest
from engine.errors import ModelUnavailable
from engine.models.registry import (
    EMBEDDED,
    check_safetensors,
    find_base,
    list_bases,
    with_adapter,
)
from engine.types import ModelRef


def _model(models: Path, name: str = "m") -> Path:
    """A folder with a safetensors file of one tensor of four numbers."""
    folder = models / name
    folder.mkdir(parents=True)
    header = b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
    weights = len(header).to_bytes(8, "little") + header + bytes(16)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


def test_the_embedded_model_is_found_by_name_and_named_by_content(base: ModelRef) -> None:
    models = Path(base.path).parent
    assert base.base == EMBEDDED
    assert find_base(models, EMBEDDED) == base
    assert EMBEDDED in list_bases(models)
    manifest = json.loads((Path(base.path) / "manifest.json").read_bytes())
    assert manifest["content"].startswith(base.revision)


@pytest.mark.parametrize("name", ["nothing-here", "../etc", "", "a/b"])
def test_a_name_that_is_not_there_is_refused(name: str, tmp_path: Path) -> None:
    write_manifest(_model(tmp_path))
    with pytest.raises(ModelUnavailable):
        find_base(tmp_path, name)


@pytest.mark.parametrize("cut", [0, 7, 30, 70, 78])
def test_weights_cut_short_anywhere_are_refused_by_name(cut: int, tmp_path: Path) -> None:
    folder = _model(tmp_path)
    write_manifest(folder)
    find_base(tmp_path, "m")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors .*Delete the folder"):
        find_base(tmp_path, "m")


@pytest.mark.parametrize(
    "offsets",
    [
        ((0, 16), (0, 16)),  # one over the other
        ((-16, 0), (16, 48)),
        ((0.0, 16.0), (16, 32)),
        ((0, 16), (24, 40)),  # a gap
        ((16, 32), (32, 48)),
    ],
)
def test_tensors_that_do_not_lie_one_after_the_other_are_refused(
    offsets: tuple[tuple[float, float], ...], tmp_path: Path
) -> None:
    tensors = {
        name: {"dtype": "F32", "shape": [int(end - start) // 4], "data_offsets": [start, end]}
        for name, (start, end) in zip("ab", offsets, strict=True)
    }
    text = json.dumps(tensors).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(32))
    with pytest.raises(ValueError, match=r"x\.safetensors has an unreadable header"):
        check_safetensors(path)


@pytest.mark.parametrize("shape", ["[Infinity]", "[4.0]", "[-2, -2]", "[true, 4]", "5", "[" * 5000])
def test_shapes_that_are_no_numbers_are_refused(shape: str, tmp_path: Path) -> None:
    text = f'{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[0,16]}}}}'.encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    with pytest.raises(ValueError, match=r"x\.safetensors has an unreadable header"):
        check_safetensors(path)


def test_weights_cut_before_the_manifest_was_written_are_refused_too(tmp_path: Path) -> None:
    folder = _model(tmp_path)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    write_manifest(folder)
    with pytest.raises(ModelUnavailable, match="its header asks for"):
        find_base(tmp_path, "m")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "a.pt", "a.pkl", "a.pth", "a.ckpt"])
def test_pickled_weights_are_refused_by_name(name: str, tmp_path: Path) -> None:
    folder = _model(tmp_path)
    (folder / name).write_bytes(b"harmless")
    write_manifest(folder)
    with pytest.raises(ModelUnavailable, match="not safetensors"):
        find_base(tmp_path, "m")


def test_pickled_weights_are_refused_by_content_under_any_name(tmp_path: Path) -> None:
    plain = _model(tmp_path, "plain")
    (plain / "model.safetensors").write_bytes(pickle.dumps({"w": 1}))
    zipped = _model(tmp_path, "zipped")
    with zipfile.ZipFile(zipped / "notes.txt", "w") as archive:
        archive.writestr("data.pkl", pickle.dumps([1]))
    for folder in (plain, zipped):
        write_manifest(folder)
        with pytest.raises(ModelUnavailable, match="pickled weights can run code"):
            find_base(tmp_path, folder.name)


def test_folders_that_bring_code_are_refused(tmp_path: Path) -> None:
    mapped = _model(tmp_path, "mapped")
    (mapped / "config.json").write_text('{"nested": [{"auto_map": {"AutoModel": "x.Y"}}]}')
    scripted = _model(tmp_path, "scripted")
    (scripted / "modeling_x.py").write_text("print('hello')")
    for folder, words in ((mapped, "auto_map"), (scripted, "program code")):
        write_manifest(folder)
        with pytest.raises(ModelUnavailable, match=words):
            find_base(tmp_path, folder.name)


def test_an_adapter_made_for_another_base_is_refused(tmp_path: Path) -> None:
    write_manifest(_model(tmp_path))
    base = find_base(tmp_path, "m")
    adapter = _model(tmp_path / "checkpoints", "a")
    write_manifest(adapter, {"base_revision": base.revision})
    assert with_adapter(base, adapter).adapter == str(adapter)
    write_manifest(adapter, {"base_revision": "0" * 16})
    with pytest.raises(ModelUnavailable, match="does not fit"):
        with_adapter(base, adapter)
