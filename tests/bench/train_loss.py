"""Loss of an adapter on held-out rows: `python -m tests.bench.train_loss MODEL FOLDER ADAPTER`.

The mean over all completion tokens of FOLDER/held-out.jsonl, in float32 with PEFT's own layers, so
that no side is measured by its own code.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any


def main(model: str, folder: str, adapter: str) -> None:
    """Print the loss of the base with the adapter."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    base: Any = AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.float32, local_files_only=True
    )
    lines = (Path(folder) / "held-out.jsonl").read_text().splitlines()
    rows: list[dict[str, list[int]]] = [json.loads(line) for line in lines]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # one of PEFT's own
        worn = PeftModel.from_pretrained(base, adapter).eval()
    print(json.dumps({"loss": loss_of(worn, rows)}))


def loss_of(model: Any, rows: list[dict[str, list[int]]]) -> float:
    """Mean cross-entropy of the rows' completion tokens."""
    import torch

    total, count = 0.0, 0
    with torch.inference_mode():
        for row in rows:
            ids = torch.tensor([row["input_ids"]])
            targets = sum(row["completion_mask"])
            logits = model(input_ids=ids, logits_to_keep=targets + 1).logits[0, :-1]
            wanted = ids[0, -targets:]
            total += float(torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"))
            count += targets
    return total / count


if __name__ == "__main__":
    main(*sys.argv[1:])
