"""LoRA fine-tuning on rows of prompt and completion, resumable at any step.

LoRA (Hu et al. 2021, arXiv 2106.09685) on every linear layer of the blocks; AdamW on float32
adapter weights over a frozen base; linear warm-up, then a cosine down to a tenth of the rate.
Each row weighs the same: its loss is the mean over its own completion tokens.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import Interrupted, ModelUnavailable, WorkerFailed
from engine.models import checkpoint, gradients
from engine.models.batches import TrainRow, plan_steps, read_rows
from engine.models.lora_layers import add_lora
from engine.models.origin import origin_of
from engine.models.renderer import template_hash
from engine.models.weights import (
    Loaded,
    pick_attention,
    read_adapter_config,
    read_adapter_weights,
    take_fingerprint,
    wear,
)
from engine.types import LoraSettings, ModelRef, Stop, TrainJob, TrainProgress, TrainResult

if TYPE_CHECKING:
    import torch

LAST_RATE = 0.1  # the learning rate at the last step, as a part of the highest
LARGEST_NORM = 1.0  # gradients are clipped to this norm


def train(
    loaded: Loaded,
    job: TrainJob,
    on_progress: Callable[[TrainProgress], None],
    stop: Stop,
    on_tokens: Callable[[int], None],
    part_rows: int | None = None,
    say: Callable[[str], None] = print,
) -> TrainResult:
    """Train the job's adapter; a stopped one goes on from its checkpoint and ends the same.

    `part_rows` is how many rows are computed at once, the whole batch when None: smaller parts
    need less memory and give the same gradients. Interrupted, with a checkpoint written, when `stop`
    says so; WorkerFailed when the loss is not finite; DiskFull before the start when the disk is too
    full; `say` hears of checkpoints that were passed over.
    """
    longest = min(job.settings.max_length, loaded.context)
    rows = read_rows(loaded.tokenizer, Path(job.rows_file), longest)
    if not rows:
        raise WorkerFailed(f"no row of {job.rows_file} fits {longest} tokens")
    wear(loaded, _bare(job.model))
    run = _Run(loaded, job, rows, part_rows or job.settings.batch_size, say)
    try:
        run.go(on_progress, stop, on_tokens)
        return run.result()
    finally:
        run.leave()


def _bare(ref: ModelRef) -> ModelRef:
    return ModelRef(base=ref.base, path=ref.path, revision=ref.revision)


class _Run:
    """One sitting of a training: the base with LoRA layers in it, until `leave`."""

    def __init__(
        self,
        loaded: Loaded,
        job: TrainJob,
        rows: list[TrainRow],
        part_rows: int,
        say: Callable[[str], None],
    ) -> None:
        import torch

        self.loaded, self.job, self.rows, self.part_rows = loaded, job, rows, part_rows
        settings = job.settings
        self.steps = plan_steps(len(rows), settings.batch_size, settings.epochs, job.seed)
        self.state_dir = Path(job.state_dir)
        self.job_key = _job_key(loaded, job)
        torch.manual_seed(job.seed)
        pick_attention(loaded.model, max(len(row.ids) for row in rows))
        self.wrapped, self.config = add_lora(loaded, settings)
        try:
            if settings.gradient_checkpointing:
                # Reentrant ones give no gradients where the embeddings need none, as here.
                loaded.model.activation_checkpointing_enable({"use_reentrant": False})
            self._begin(say)
        except BaseException:
            self.leave()
            raise

    def _begin(self, say: Callable[[str], None]) -> None:
        import torch

        parameters = self.lora()
        checkpoint.check_space(self.job, sum(p.numel() for p in parameters.values()))
        for folder in (self.state_dir, Path(self.job.out_dir)):
            checkpoint.clear_aside(folder)
        if self.job.model.adapter:
            _continue_from(Path(self.job.model.adapter), self.config, parameters)
        # Decay would pull the adapter, not the frozen base, towards zero.
        self.optimizer = torch.optim.AdamW(
            parameters.values(), lr=self.job.settings.learning_rate, weight_decay=0.0
        )
        self.progress = checkpoint.Progress()
        found = checkpoint.newest(self.state_dir, self.job_key, say)
        if found:
            self.progress, tensors = found
            checkpoint.restore(parameters, self.optimizer, tensors)
        self.resumed_from = self.progress.step

    def lora(self) -> "dict[str, torch.nn.Parameter]":
        """The trained parameters by their PEFT names in a saved adapter."""
        return {
            name.replace(".default.", "."): parameter
            for name, parameter in self.wrapped.named_parameters()
            if parameter.requires_grad
        }

    def go(
        self,
        on_progress: Callable[[TrainProgress], None],
        stop: Stop,
        on_tokens: Callable[[int], None],
    ) -> None:
        """Take the steps that are left, with checkpoints by the clock."""
        saved_at = time.monotonic()
        while self.progress.step < len(self.steps):
            if stop():
                self._save()
                raise Interrupted(f"training stopped after step {self.progress.step}")
            saved = None
            self._step(on_tokens)
            if time.monotonic() - saved_at >= self.job.settings.checkpoint_seconds:
                self._save()
                saved, saved_at = self.progress.step, time.monotonic()
            on_progress(
                TrainProgress(
                    step=self.progress.step,
                    steps=len(self.steps),
                    loss=self.progress.loss_last,
                    seconds=self.progress.seconds,
                    checkpoint_step=saved,
                )
            )

    def _step(self, on_tokens: Callable[[int], None]) -> None:
        began = time.monotonic()
        at = self.progress.step
        batch = [self.rows[number] for number in self.steps[at]]
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.job.settings, at, len(self.steps))
        loss = gradients.accumulate(self.wrapped, batch, self.part_rows, on_tokens)
        if not math.isfinite(loss):
            raise WorkerFailed(
                f"the loss is {loss} at step {at + 1} of {len(self.steps)}: "
                f"lower the learning rate {self.job.settings.learning_rate:g}, or look at the rows"
            )
        self._update()
        progress = self.progress
        progress.step += 1
        progress.tokens += sum(len(row.ids) for row in batch)
        progress.target_tokens += sum(row.targets for row in batch)
        progress.loss_first = progress.loss_first if at else loss
        progress.loss_last = loss
        progress.seconds += time.monotonic() - began

    def _update(self) -> None:
        import torch

        torch.nn.utils.clip_grad_norm_(self.lora().values(), LARGEST_NORM)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _save(self) -> None:
        tensors = checkpoint.collect(self.lora(), self.optimizer)
        checkpoint.save(self.state_dir, self.job_key, self.progress, tensors)

    def result(self) -> TrainResult:
        """Write the adapter and say what the training did."""
        about = {
            "base": self.job.model.base,
            "base_revision": self.loaded.revision,
            "continued_from": self.job.model.adapter_hash,
            "template": template_hash(self.loaded.tokenizer),
            "settings": asdict(self.job.settings),
            "seed": self.job.seed,
            "rows": len(self.rows),
            "precision": self.loaded.precision,
        }
        origin = origin_of(Path(self.job.model.path))
        config = {**self.config, "base_model_name_or_path": origin.name}
        folder, name = checkpoint.save_adapter(self.job, self.lora(), config, about)
        progress = self.progress
        return TrainResult(
            adapter_dir=str(folder),
            adapter_hash=name,
            steps=progress.step,
            rows_used=len(self.rows),
            tokens=progress.tokens,
            target_tokens=progress.target_tokens,
            loss_first=progress.loss_first,
            loss_last=progress.loss_last,
            seconds=progress.seconds,
            batch_size=self.part_rows,
            resumed_from=self.resumed_from,
        )

    def leave(self) -> None:
        """Take the LoRA layers out again and check that the base is as it was."""
        self.wrapped.unload()
        if self.loaded.model.is_activation_checkpointing:
            self.loaded.model.activation_checkpointing_disable()
        self.loaded.model.eval().requires_grad_(False)
        if take_fingerprint(self.loaded.model) != self.loaded.fingerprint:
            raise RuntimeError("the base does not answer as before the training")


def learning_rate(settings: LoraSettings, step: int, steps: int) -> float:
    """The rate of a step (from 0): linear warm-up, then a cosine down to a tenth."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    part = (step - settings.warmup_steps) / max(1, steps - settings.warmup_steps)
    height = LAST_RATE + (1 - LAST_RATE) * (1 + math.cos(math.pi * part)) / 2
    return settings.learning_rate * height


def _continue_from(
    folder: Path, config: dict[str, Any], parameters: "dict[str, torch.nn.Parameter]"
) -> None:
    import torch

    from engine.models.registry import check_weights_folder

    check_weights_folder(folder)
    before = read_adapter_config(folder)
    for name in ("r", "lora_alpha", "target_modules", "target_parameters"):
        if before.get(name) != config.get(name):
            there, asked = before.get(name), config.get(name)
            raise ModelUnavailable(
                f"adapter {folder} has {name} {there} and the settings ask {asked}"
            )
    weights = read_adapter_weights(folder)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def _job_key(loaded: Loaded, job: TrainJob) -> str:
    """What a checkpoint must agree with: everything that decides the adapter's bytes."""
    settings = asdict(job.settings)
    del settings["checkpoint_seconds"]
    rows = hashlib.sha256(Path(job.rows_file).read_bytes()).hexdigest()
    parts = [rows, settings, job.seed, job.model.identity, loaded.precision, loaded.device]
    text = json.dumps([*parts, template_hash(loaded.tokenizer)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
