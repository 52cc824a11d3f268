"""Our side of the training benchmark: `python -m tests.bench.train_ours MODEL FOLDER PRECISION`.

Trains on FOLDER/rows.jsonl as the worker does, writes the adapter below FOLDER/ours, and prints the
rate over all steps but the first.
"""

import json
import resource
import sys
import time
from pathlib import Path

from engine.models.batches import plan_steps, read_rows
from engine.models.registry import find_base
from engine.types import LoraSettings, TrainJob, TrainProgress
from engine.worker import share_cores
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


def main(model: str, folder: str, precision: str) -> None:
    """Train once and print what it took."""
    share_cores()
    import torch

    from engine.models.lora import train
    from engine.models.weights import load_base

    torch.set_num_threads(1)
    ref = find_base(Path(model).parent, Path(model).name)
    loaded = load_base(ref, precision, "cpu")
    rows_file = Path(folder) / "rows.jsonl"
    rows = read_rows(loaded.tokenizer, rows_file, 1024)
    settings = LoraSettings(
        rank=RANK,
        alpha=ALPHA,
        learning_rate=LEARNING_RATE,
        batch_size=batch_size(len(rows)),
        warmup_steps=WARM_UP_STEPS,
        checkpoint_seconds=1e9,
    )
    job = TrainJob(
        model=ref,
        rows_file=str(rows_file),
        out_dir=f"{folder}/ours",
        state_dir=f"{folder}/state",
        settings=settings,
        seed=SEED,
    )
    ends: list[float] = []

    def note(_: TrainProgress) -> None:
        ends.append(time.perf_counter())

    result = train(loaded, job, note, lambda: False, lambda count: None)
    timed = plan_steps(len(rows), settings.batch_size, 1.0, SEED)[1:]
    targets = sum(rows[at].targets for step in timed for at in step)
    tokens = sum(len(rows[at].ids) for step in timed for at in step)
    seconds = ends[-1] - ends[0]
    print(
        json.dumps(
            {
                "targets_per_second": targets / seconds,
                "tokens_per_second": tokens / seconds,
                "seconds": seconds,
                "steps": len(ends),
                "loss_first": result.loss_first,
                "loss_last": result.loss_last,
                "adapter": result.adapter_dir,
                "sha256": sha256_of(result.adapter_dir),
                "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
            }
        )
    )
    assert len(ends) == STEPS


if __name__ == "__main__":
    main(*sys.argv[1:])
