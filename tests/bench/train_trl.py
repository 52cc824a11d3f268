"""TRL's side of the training benchmark: `python -m tests.bench.train_trl MODEL FOLDER PRECISION ORDER`.

Runs in TRL's own environment; of Pawl it uses the sizes and learning rates. Rows come as token ids in the
order in which our steps take them; ORDER is `sequential`, so that every step has the rows of our
step, or `group_by_length`, TRL's own way to pad less. Its batches are TRL's default of 8 rows,
accumulated to the same rows a step. Gradient checkpointing, on by default there, is off, since it
trades speed for memory.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench.train_sizes import (
    ALPHA,
    LEARNING_RATE,
    RANK,
    SEED,
    STEPS,
    WARM_UP_STEPS,
    batch_size,
    sha256_of,
)

ROWS_A_BATCH = 8


def main(model: str, folder: str, precision: str, order: str) -> None:
    """Train once and print what it took."""
    import torch
    from transformers import TrainerCallback

    torch.set_num_threads(1)
    lines = (Path(folder) / "ids.jsonl").read_text().splitlines()
    rows: list[dict[str, list[int]]] = [json.loads(line) for line in lines]
    a_step = batch_size(len(rows))
    a_batch = min(ROWS_A_BATCH, a_step)
    ends: list[float] = []

    class Clock(TrainerCallback):
        """Notes when each step ended."""

        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.perf_counter())

    args = settings(f"{folder}/trl-{order}", precision, order, a_batch, a_step)
    trainer = trainer_of(model, precision, args, rows, Clock())
    use_our_rates(trainer)
    seen = Seen(trainer)
    trainer.train()
    trainer.save_model(args.output_dir)
    seconds = ends[-1] - ends[0]
    first = a_step // a_batch
    print(
        json.dumps(
            {
                "targets_per_second": sum(seen.targets[first:]) / seconds,
                "tokens_per_second": sum(seen.tokens[first:]) / seconds,
                "padding": 1 - sum(seen.tokens) / sum(seen.cells),
                "seconds": seconds,
                "steps": len(ends),
                "adapter": args.output_dir,
                "sha256": sha256_of(args.output_dir),
                "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
            }
        )
    )
    assert len(ends) == STEPS


def settings(folder: str, precision: str, order: str, a_batch: int, a_step: int) -> Any:
    """One epoch in TRL's own words."""
    from trl import SFTConfig  # type: ignore[import-not-found]

    return SFTConfig(
        output_dir=folder,
        per_device_train_batch_size=a_batch,
        gradient_accumulation_steps=a_step // a_batch,
        num_train_epochs=1,
        train_sampling_strategy=order,
        completion_only_loss=True,
        gradient_checkpointing=False,
        bf16=precision == "bfloat16",
        use_cpu=True,
        seed=SEED,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def trainer_of(
    model: str, precision: str, args: Any, rows: list[dict[str, list[int]]], clock: Any
) -> Any:
    """TRL's trainer on our base, whose adapter begins with the same numbers as ours."""
    import torch
    from datasets import Dataset  # type: ignore[import-not-found]
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTTrainer

    base = AutoModelForCausalLM.from_pretrained(model, dtype=precision, local_files_only=True)
    torch.manual_seed(SEED)
    return SFTTrainer(
        model=base,
        args=args,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(model, local_files_only=True),
        peft_config=LoraConfig(
            r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
        callbacks=[clock],
    )


def use_our_rates(trainer: Any) -> None:
    """AdamW with the learning rate that our training has at each step."""
    import torch

    from engine.models.lora import learning_rate
    from engine.types import LoraSettings

    settings = LoraSettings(learning_rate=1.0, warmup_steps=WARM_UP_STEPS)
    trained = [p for p in trainer.model.parameters() if p.requires_grad]
    trainer.optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, weight_decay=0.0)
    trainer.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
        trainer.optimizer, lambda step: learning_rate(settings, step, STEPS)
    )


class Seen:
    """Counts what passes through a trainer's collator: targets, tokens, cells with padding."""

    def __init__(self, trainer: Any) -> None:
        self.targets: list[int] = []
        self.tokens: list[int] = []
        self.cells: list[int] = []
        self._collate = trainer.data_collator
        trainer.data_collator = self

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = self._collate(examples)
        self.targets.append(int((batch["labels"] != -100).sum()))
        self.tokens.append(int(batch["attention_mask"].sum()))
        self.cells.append(batch["input_ids"].numel())
        return batch


if __name__ == "__main__":
    main(*sys.argv[1:])
