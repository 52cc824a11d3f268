"""Training: the same arithmetic however it is cut up, stopped or continued."""

import warnings
from pathlib import Path

import pytest

from data.files import read_manifest
from engine.errors import Interrupted, ModelUnavailable, WorkerFailed
from engine.models import batches, lora
from engine.models.batches import plan_steps, read_rows, split_step
from engine.models.gradients import accumulate
from engine.models.lora_layers import add_lora
from engine.models.registry import with_adapter
from engine.models.weights import Loaded, load_base, wear
from engine.types import LoraSettings, ModelRef, TrainJob, TrainProgress, TrainResult
from tests.worker.samples import job, never, write_rows


def _train(loaded: Loaded, training: TrainJob, stop_after: int | None = None) -> TrainResult:
    seen: list[TrainProgress] = []

    def stop() -> bool:
        return stop_after is not None and len(seen) >= stop_after

    return lora.train(loaded, training, seen.append, stop, lambda count: None)


@pytest.fixture
def loaded_tiny(tiny: ModelRef) -> Loaded:
    return load_base(tiny, "float32", "cpu")


def test_steps_depend_on_seed_and_epoch_alone() -> None:
    once = plan_steps(50, 8, 2.5, seed=3)
    assert once == plan_steps(50, 8, 2.5, seed=3) != plan_steps(50, 8, 2.5, seed=4)
    first, second = once[:7], once[7:14]
    for epoch in (first, second):
        assert sorted(row for step in epoch for row in step) == list(range(50))
    assert first != second
    assert len(once) == 18  # 7 steps an epoch, two and a half epochs, rounded
    assert plan_steps(50, 8, 3.0, seed=3)[:18] == once


def test_parts_of_a_step_give_the_gradients_of_the_whole(tiny: ModelRef, tmp_path: Path) -> None:
    """Rows alone, in pairs, and all at once with their beginning computed once; in float64."""
    loaded = load_base(tiny, "float64", "cpu")
    rows = read_rows(loaded.tokenizer, Path(write_rows(tmp_path / "rows.jsonl", 6)), 1024)
    wrapped, _ = add_lora(loaded, LoraSettings(rank=2))
    wrapped.double()
    _wake(wrapped)
    results = [_gradients(wrapped, rows, part) for part in (1, 2, 6)]
    assert batches.shared_beginning(split_step(rows, 6, 48)[0], 48) > 8
    (loss, alone), *others = results
    for other_loss, gradients in others:
        assert other_loss == pytest.approx(loss, abs=1e-6)
        for name, gradient in alone.items():
            scale = float(gradient.abs().max())
            assert float((gradients[name] - gradient).abs().max()) <= 1e-5 * scale


def _wake(wrapped: object) -> None:
    """LoRA starts at zero, where half of its gradients vanish: give it some weight."""
    import torch

    torch.manual_seed(0)
    for parameter in wrapped.parameters():  # type: ignore[attr-defined]
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.02)


def _gradients(wrapped: object, rows: list[batches.TrainRow], part: int) -> tuple[float, dict]:  # type: ignore[type-arg]
    wrapped.zero_grad()  # type: ignore[attr-defined]
    loss = accumulate(wrapped, rows, part)
    named = wrapped.named_parameters()  # type: ignore[attr-defined]
    return loss, {name: p.grad.clone() for name, p in named if p.requires_grad}


def test_a_real_training_learns_and_names_its_adapter_by_content(
    loaded: Loaded, base: ModelRef, tmp_path: Path
) -> None:
    training = job(tmp_path, base, rows=24, batch_size=6, learning_rate=2e-3)
    result = _train(loaded, training)
    assert result.steps == 4 and result.rows_used == 24
    assert result.loss_last < result.loss_first
    folder = Path(result.adapter_dir)
    assert folder == tmp_path / "out" / result.adapter_hash
    assert read_manifest(folder)["content"].startswith(result.adapter_hash)
    assert sorted(path.name for path in folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "manifest.json",
    ]
    _merges_as_peft_does(loaded, with_adapter(base, folder))


def _merges_as_peft_does(loaded: Loaded, worn: ModelRef) -> None:
    """Our merged weights answer like PEFT's own adapter layers, and come off without a trace."""
    import torch
    from peft import PeftModel

    ids = torch.tensor([[1, 17, 4093, 198, 33, 1232]])
    bare = loaded.model(ids).logits
    assert worn.adapter is not None
    wear(loaded, worn)
    ours = loaded.model(ids).logits
    wear(loaded, ModelRef(base=worn.base, path=worn.path, revision=worn.revision))
    assert torch.equal(loaded.model(ids).logits, bare)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # one of PEFT's own
        wrapped = PeftModel.from_pretrained(loaded.model, worn.adapter)
    theirs = wrapped(input_ids=ids).logits
    wrapped.unload()
    assert float((ours - theirs).abs().max()) < 1e-3 < float((ours - bare).abs().max())


def test_a_stopped_training_goes_on_and_ends_with_the_same_adapter(
    loaded_tiny: Loaded, tiny: ModelRef, tmp_path: Path
) -> None:
    through = _train(loaded_tiny, job(tmp_path / "through", tiny, dropout=0.1))
    broken = job(tmp_path / "broken", tiny, dropout=0.1)
    for steps in (2, 1):
        with pytest.raises(Interrupted):
            _train(loaded_tiny, broken, stop_after=steps)
    resumed = _train(loaded_tiny, broken)
    assert resumed.resumed_from == 3
    assert resumed.adapter_hash == through.adapter_hash
    assert (resumed.tokens, resumed.loss_first, resumed.loss_last) == (
        through.tokens,
        through.loss_first,
        through.loss_last,
    )


def test_a_checkpoint_cut_short_is_passed_over_for_the_one_before(
    loaded_tiny: Loaded, tiny: ModelRef, tmp_path: Path
) -> None:
    training = job(tmp_path, tiny, checkpoint_seconds=0.0)
    with pytest.raises(Interrupted):
        _train(loaded_tiny, training, stop_after=4)
    kept = sorted((tmp_path / "state").iterdir())
    assert [path.name for path in kept] == ["step-000003", "step-000004"]
    newest = kept[-1] / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    said: list[str] = []
    result = lora.train(
        loaded_tiny, training, lambda step: None, never, lambda count: None, say=said.append
    )
    assert result.resumed_from == 3
    assert any("state.safetensors has 1000 bytes" in line for line in said)


def test_the_checkpoints_of_another_job_are_not_taken_up(
    loaded_tiny: Loaded, tiny: ModelRef, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        _train(loaded_tiny, job(tmp_path, tiny), stop_after=2)
    assert _train(loaded_tiny, job(tmp_path, tiny, learning_rate=5e-4)).resumed_from == 0


def test_an_adapter_is_continued_and_must_fit(
    loaded_tiny: Loaded, tiny: ModelRef, tmp_path: Path
) -> None:
    first = _train(loaded_tiny, job(tmp_path / "first", tiny, learning_rate=3e-2, epochs=3))
    worn = with_adapter(tiny, Path(first.adapter_dir))
    second = _train(loaded_tiny, job(tmp_path / "second", worn, learning_rate=3e-2, epochs=3))
    assert second.loss_first < first.loss_first - 0.05
    assert second.adapter_hash != first.adapter_hash
    manifest = read_manifest(Path(second.adapter_dir))
    assert manifest["about"]["continued_from"] == first.adapter_hash
    with pytest.raises(ModelUnavailable, match="has r 4 and the settings ask 8"):
        _train(loaded_tiny, job(tmp_path / "third", worn, rank=8))
    weights = Path(first.adapter_dir) / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ModelUnavailable, match=r"adapter_model\.safetensors"):
        _train(loaded_tiny, job(tmp_path / "fourth", worn))


def test_a_loss_that_is_not_a_number_ends_the_training_with_its_step(
    loaded_tiny: Loaded, tiny: ModelRef, tmp_path: Path
) -> None:
    training = job(tmp_path, tiny, learning_rate=1e30, warmup_steps=1)
    with pytest.raises(WorkerFailed, match=r"the loss is (nan|inf) at step \d of 6"):
        _train(loaded_tiny, training)
    assert not list((tmp_path / "out").iterdir())


def test_rows_without_anything_to_learn_are_refused(
    loaded_tiny: Loaded, tiny: ModelRef, tmp_path: Path
) -> None:
    with pytest.raises(WorkerFailed, match="no row"):
        _train(loaded_tiny, job(tmp_path, tiny, max_length=10))
