"""A checkpoint handed out: its files as they are, as an adapter for use anywhere, as one model."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, select

from data.disk import Room
from data.files import read_manifest, verify_manifest
from data.home import Home
from data.store import Store
from data.tables import Checkpoint, Version
from engine.models import adapter_export
from engine.models.bases import Wanted, add_base
from engine.models.registry import find_base, with_adapter
from engine.models.weights import load_base, take_fingerprint, wear
from engine.types import ModelRef
from tests import sample_run
from tests.adapters import lay_adapter
from tests.app.checkpoint_desk import Here


@pytest.fixture
def here(home: Home, tiny: ModelRef, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Here:
    """A home with one adapter that was taken in, called mine."""
    made = Here(home, tiny, capsys)
    made.worked(
        "import", str(lay_adapter(tmp_path / "given", tiny)), "--base", "tiny", "--name", "mine"
    )
    return made


def folder_of(here: Here) -> Path:
    (folder,) = here.home.checkpoints.iterdir()
    return folder


def worn(here: Here, tiny: ModelRef) -> Any:
    """The base with the adapter, as the worker has it."""
    loaded = load_base(tiny, "float32", "cpu")
    wear(loaded, with_adapter(tiny, folder_of(here)))
    return loaded.model


def test_a_download_is_the_files_as_they_are(here: Here, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    assert f"in {out}, hashes verified" in here.worked("download", "mine", "--out", str(out))
    assert verify_manifest(out) == verify_manifest(folder_of(here))
    assert "is there already" in here.refused("download", "mine", "--out", str(out))
    (folder_of(here) / "adapter_model.safetensors").write_bytes(b"x")
    assert "not whole" in here.refused("download", "mine", "--out", str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_a_link_or_a_mount_point_is_no_place_for_an_export(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for word in ("download", "export"):
        said = here.refused(word, "mine", "--out", str(tmp_path / "link"))
        assert "link is a link: name a new folder inside it" in said
    monkeypatch.setattr("os.path.ismount", lambda path: str(path).endswith("empty"))
    said = here.refused("download", "mine", "--out", str(tmp_path / "empty"))
    assert "empty is a mount point: name a new folder inside it" in said
    assert not any((tmp_path / "empty").iterdir())


def test_an_exported_adapter_loads_with_peft_and_answers_the_same(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    out = tmp_path / "out"
    said = here.worked("export", "mine", "--out", str(out))
    assert "Its base is called tiny there" in said
    verify_manifest(out)
    card = (out / "README.md").read_text()
    assert "# mine" in card and tiny.revision in card and "measured by no gate here" in card
    hashes = read_manifest(folder_of(here))["files"].values()
    assert all(one["sha256"] in card for one in hashes)
    model: Any = AutoModelForCausalLM.from_pretrained(tiny.path)
    with warnings.catch_warnings():
        # PEFT still asks transformers for an attribute under its former name.
        warnings.simplefilter("ignore", FutureWarning)
        model = PeftModel.from_pretrained(model, out).merge_and_unload()
    ours = worn(here, tiny)
    assert logits(model).allclose(logits(ours), atol=1e-4)
    assert not logits(model).allclose(logits(load_base(tiny, "float32", "cpu").model), atol=0.1)


def logits(model: Any) -> Any:
    import torch

    with torch.inference_mode():
        return model(input_ids=torch.tensor([[1, 17, 4093, 198, 33]])).logits


def test_a_merged_model_is_a_base_of_its_own_with_the_same_numbers(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    out = tmp_path / "merged"
    said = here.worked("export", "mine", "--merge", "--out", str(out))
    assert "in float32" in said and f"model add-base NAME --path {out}" in said
    ref = find_base(tmp_path, "merged")
    merged = load_base(ref, "float32", "cpu").model
    assert take_fingerprint(merged) == take_fingerprint(worn(here, tiny))
    assert (out / "tokenizer.json").is_file() and (out / "chat_template.jinja").is_file()
    assert "merged in" in (out / "README.md").read_text()
    add_base(here.home.models, Wanted(name="again", folder=out, origin={}))
    again = find_base(here.home.models, "again")
    assert take_fingerprint(load_base(again, "float32", "cpu").model) == take_fingerprint(merged)
    assert not list(tmp_path.glob("*.tmp-*"))


def test_what_cannot_be_exported_is_said_and_leaves_nothing(
    here: Here, tiny: ModelRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    words = ("export", "mine", "--out", str(out))
    assert "--dtype" in here.refused(*words, "--dtype", "float32")
    assert "there is no checkpoint nobody" in here.refused("export", "nobody", "--out", str(out))
    with monkeypatch.context() as patch:
        little = Room(total=10**9, used=10**9, free=1000)
        patch.setattr(adapter_export, "room", lambda _: little)
        assert "GB are needed and" in here.refused(*words)
        assert "GB are needed and" in merge_refused(here, out)
    base = here.home.models / "tiny"
    shutil.rmtree(base)
    assert "there is no base model tiny" in here.refused(*words)
    shutil.copytree(tiny.path, base)
    (base / "model.safetensors").write_bytes(b"cut")
    assert "model.safetensors is cut short" in merge_refused(here, out)
    assert not out.exists() and not list(tmp_path.glob("*.tmp-*"))


def test_an_interrupted_merge_leaves_nothing_and_takes_nothing_of_others(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, others = tmp_path / "out[1]", tmp_path / "out[1].tmp-mine"
    others.mkdir()

    def interrupted(command: list[str], log: Path) -> None:
        (tmp_path / "out[1].tmp-0123abcd").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(adapter_export, "_in_child", interrupted)
    code, _, err = here.type("export", "mine", "--merge", "--out", str(out))
    assert code == 130 and "nothing half done is left" in err
    assert [path.name for path in tmp_path.glob("out*")] == [others.name]


def merge_refused(here: Here, out: Path) -> str:
    code, _, err = here.type("export", "mine", "--merge", "--out", str(out))
    assert code == 1
    return err


def test_the_card_of_a_runs_version_has_its_gate_and_scores(here: Here, tmp_path: Path) -> None:
    store = Store(here.home.database)
    store.write(sample_run.finished_run)

    def point_to_the_adapter(session: Session) -> None:
        """The sample run's weights are not on disk: let this adapter be its candidate's."""
        query = select(Version).where(Version.run == "arith-carry-1", Version.name == "candidate-1")
        version = session.exec(query).one()
        version.adapter = folder_of(here).name
        row = session.get_one(Checkpoint, folder_of(here).name)
        row.training = {"settings": {"rank": 4}}
        session.add_all([version, row])

    store.write(point_to_the_adapter)
    store.close()
    out = tmp_path / "out"
    here.worked("export", "arith-carry-1/candidate-1", "--out", str(out))
    card = (out / "README.md").read_text()
    assert "# arith-carry-1/candidate-1" in card
    assert "Round 1 of arith-carry-1 (arith): promote." in card
    assert "| blind | 400 | 19.0% | 19.0% | 40.5% |" in card and "| held out |" in card
    assert "arith-carry-1/candidate-1" in here.worked("list")


def test_what_is_simulated_has_no_weights(here: Here, tmp_path: Path) -> None:
    store = Store(here.home.database)

    def simulate(session: Session) -> None:
        row = session.get_one(Checkpoint, folder_of(here).name)
        row.simulated = True
        session.add(row)

    store.write(simulate)
    store.close()
    refused = here.refused("export", "mine", "--out", str(tmp_path / "out"))
    assert "mine is simulated: it has no weights to export" in refused
