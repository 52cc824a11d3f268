"""Files cut short anywhere, or gone: the file is named with what to do, and what is whole goes on."""

import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from data.files import verify_manifest
from engine import resources
from engine.errors import Interrupted, ModelUnavailable
from engine.models import lora
from engine.models.registry import EMBEDDED, ensure_embedded, with_adapter
from engine.models.weights import load_base
from engine.models.worker_engine import WorkerEngine
from engine.types import ModelRef, TrainResult
from tests.instance import OWNER
from tests.waiting import eventually
from tests.worker.samples import job, never
from tests.worker.tiny_loop import (
    RUN,
    detail,
    events,
    is_at,
    lay_model,
    rests,
    resume,
    tiny_loop,
)


def broken(file: Path) -> Iterator[str]:
    """The file cut at five points, then gone; whole again afterwards."""
    whole = file.read_bytes()
    for cut in (0, 7, 60, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        yield f"cut at {cut}"
    file.unlink()
    yield "gone"
    file.write_bytes(whole)


def test_a_run_rests_while_its_base_model_is_broken_and_goes_on_when_it_is_whole(
    tiny: ModelRef, tmp_path: Path
) -> None:
    lay_model(tmp_path, tiny)
    file = tmp_path / "models" / "tiny" / "model.safetensors"
    cases = broken(file)
    next(cases)
    with tiny_loop(tmp_path, tiny) as pawl:
        for how in cases:
            found = rests(pawl)
            assert str(file) in (found.reason or ""), how
            assert (found.reason or "").endswith("make it again, then resume"), how
            resume(pawl)
        # Whether the last resume met the file whole is a matter of who was quicker.
        if (
            eventually(lambda: detail(pawl).state in {"paused", "finished"} and detail(pawl)).state
            == "paused"
        ):
            resume(pawl)
        assert [one.outcome for one in rests(pawl, "finished").rounds] == ["completed"]


def test_a_broken_adapter_is_named_with_what_to_do(tiny: ModelRef, tmp_path: Path) -> None:
    trained = _train(tiny, tmp_path)
    folder = Path(trained.adapter_dir)
    for how in broken(folder / "adapter_model.safetensors"):
        with pytest.raises(ModelUnavailable) as refused:
            with_adapter(tiny, folder)
        assert "adapter_model.safetensors" in str(refused.value), how
        assert str(refused.value).endswith(f"Put {folder} back from a backup, then resume")
    assert with_adapter(tiny, folder).adapter_hash == trained.adapter_hash
    shutil.rmtree(folder)
    with pytest.raises(ModelUnavailable, match=f"{folder} is missing. Put"):
        with_adapter(tiny, folder)


def _train(tiny: ModelRef, folder: Path) -> TrainResult:
    loaded = load_base(tiny, "float32", "cpu")
    return lora.train(loaded, job(folder, tiny), lambda p: None, never, lambda count: None)


def test_a_broken_checkpoint_is_passed_over_for_the_one_before(
    tiny: ModelRef, tmp_path: Path
) -> None:
    undisturbed = _train(tiny, tmp_path / "through")
    loaded = load_base(tiny, "float32", "cpu")
    training = job(tmp_path / "broken", tiny, checkpoint_seconds=0.0)
    seen: list[object] = []
    with pytest.raises(Interrupted):
        lora.train(loaded, training, seen.append, lambda: len(seen) >= 4, lambda count: None)
    state = Path(training.state_dir)
    aside = shutil.copytree(state, tmp_path / "aside")
    for number in range(6):
        shutil.rmtree(state)
        shutil.copytree(aside, state)
        cases = broken(state / "step-000004" / "state.safetensors")
        how = [next(cases) for _ in range(number + 1)][-1]
        said: list[str] = []
        result = lora.train(
            loaded, training, lambda p: None, never, lambda count: None, say=said.append
        )
        assert result.resumed_from == 3, how
        assert result.adapter_hash == undisturbed.adapter_hash
        (line,) = said
        assert line.startswith("checkpoint passed over: ") and "state.safetensors" in line


def test_the_live_view_says_that_a_checkpoint_was_passed_over(
    tiny: ModelRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (sys.executable, "-m", "tests.worker.hard_times", "patient", str(tmp_path))
    (tmp_path / "train").touch()
    with monkeypatch.context() as patch:
        patch.setattr(resources, "WorkerEngine", partial(WorkerEngine, command=command))
        with tiny_loop(tmp_path, tiny) as pawl:
            eventually(lambda: is_at(pawl, "train"))
            eventually(lambda: pawl.service.run_live(OWNER, RUN).loss)
    folders = sorted((tmp_path / "runs").glob("*/train-1/step-*"))
    weights = folders[-1] / "state.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with tiny_loop(tmp_path, tiny) as pawl:
        rests(pawl, "finished")
        passed = [text for text in events(pawl) if text.startswith("checkpoint passed over: ")]
    assert len(passed) == 1 and "state.safetensors has 100 bytes" in passed[0]


@pytest.mark.long
def test_a_broken_embedded_model_is_made_again_from_its_packaged_file(
    base: ModelRef, embedded_gguf: Path, tmp_path: Path
) -> None:
    shutil.copytree(base.path, tmp_path / EMBEDDED)
    weights = tmp_path / EMBEDDED / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    made = ensure_embedded(tmp_path, embedded_gguf)
    assert made.revision == base.revision
    assert verify_manifest(tmp_path / EMBEDDED).startswith(base.revision)


def test_without_a_whole_packaged_file_set_up_is_to_be_run_again(tmp_path: Path) -> None:
    model = tmp_path / EMBEDDED
    model.mkdir()
    (model / "left").touch()
    gguf = tmp_path / "model.gguf"
    with pytest.raises(ModelUnavailable, match=r"model\.gguf is missing: .*run python3 run\.py"):
        ensure_embedded(tmp_path, gguf)
    gguf.write_bytes(b"half a model")
    with pytest.raises(ModelUnavailable, match=r"model\.gguf is damaged: delete it, .*run\.py"):
        ensure_embedded(tmp_path, gguf, "00" * 32)
    assert (model / "left").exists(), "nothing is deleted before its source is known to be whole"
