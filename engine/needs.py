"""How much memory a run needs on its device, from what its rows look like before there are any."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from engine.config import RunConfig, read_config
from engine.facts import Library
from engine.models.memory import training_need
from engine.models.registry import EMBEDDED
from engine.types import Domain, LoraSettings, Task

LOOKED_AT = 5000  # rows of a file
SAMPLES = 3  # tasks of each family that are looked at
TEMPLATE_TOKENS = 40  # that a chat template puts around two messages
LETTERS_A_TOKEN = 3.0
SPARE = 1.15  # of what was measured
SMALLER = 4  # the worker goes down to this part of a batch when memory runs out
EMBEDDED_CONFIG = {  # of the embedded model, which is made on first use
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}


@dataclass(kw_only=True, slots=True, frozen=True)
class Need:
    """Bytes of a training at its peak: `usual` with a whole batch at once, `least` with a quarter.

    Both are upper bounds; `measured` is what the last one like it took, in run `measured_in`.
    """

    usual: int
    least: int
    measured: int | None = None
    measured_in: str | None = None

    @property
    def expected(self) -> int:
        """What to keep free for it: as measured with some to spare, else the upper bound."""
        if self.measured is None:
            return self.usual
        return min(self.usual, round(SPARE * self.measured))


def run_need(
    models: Path,
    library: Library,
    domain: str,
    base_model: str,
    config: dict[str, Any],
    kind: str,
    precision: str,
) -> Need | None:
    """What a run trains with on a kind of device, "cpu" or "cuda".

    None for a base whose sizes nobody knows, such as a simulated one. A ValueError says which
    setting does not fit.
    """
    base = config_of(models, base_model)
    if base is None:
        return None
    read = read_config(config, library.domains[domain])
    length, targets = row_tokens(read, library.domains[domain], library)
    return _need(base, read.lora, kind, precision, length, targets)


def rows_need(
    models: Path, base_model: str, lora: Mapping[str, Any], rows: Path, kind: str, precision: str
) -> Need | None:
    """What a training on a file of rows takes, from its first thousands of rows; None for a base
    whose sizes nobody knows. ValueError, KeyError, TypeError or OSError when the file or a setting
    is odd."""
    base = config_of(models, base_model)
    if base is None:
        return None
    settings = LoraSettings(**lora)
    with open(rows, encoding="utf-8") as lines:
        found = [_row_tokens(json.loads(line)) for line in islice(lines, LOOKED_AT)]
    length = min(settings.max_length, max((whole for whole, _ in found), default=1))
    targets = min(length, max((completion for _, completion in found), default=1))
    return _need(base, settings, kind, precision, length, targets)


def config_of(models: Path, base_model: str) -> Mapping[str, Any] | None:
    """The config.json of a base model; None where there is none."""
    try:
        found: dict[str, Any] = json.loads((models / base_model / "config.json").read_bytes())
    except (OSError, ValueError):
        return EMBEDDED_CONFIG if base_model == EMBEDDED else None
    return found


def row_tokens(config: RunConfig, domain: Domain, library: Library) -> tuple[int, int]:
    """Tokens of the longest row that is to be expected, and how many of them carry loss at most."""
    tasks = [family.make(seed) for family in config.families for seed in range(SAMPLES)]
    own = max((_prompt_tokens(domain.system, task) for task in tasks), default=0)
    own += config.harness.max_tokens
    replayed = 0
    if config.replay_share:
        system = max(map(tokens_of, library.replay_systems), default=0)
        prompt = max(map(tokens_of, library.replay_prompts), default=0)
        replayed = system + prompt + TEMPLATE_TOKENS + library.replay_tokens
    targets = max(config.harness.max_tokens, library.replay_tokens if config.replay_share else 0)
    longest = min(config.lora.max_length, max(own, replayed))
    return longest, min(targets, longest)


def tokens_of(text: str) -> int:
    """About how many tokens a text has: digits and signs one each, letters some three together."""
    letters = sum(1 for sign in text if sign.isalpha())
    others = sum(1 for sign in text if not sign.isalpha() and not sign.isspace())
    return others + round(letters / LETTERS_A_TOKEN)


def _row_tokens(row: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of a row, and those of its completion among them."""
    completion = tokens_of(row["completion"]) + 1  # the end token
    prompt = sum(tokens_of(message["content"]) for message in row["messages"])
    return completion + prompt + TEMPLATE_TOKENS, completion


def _prompt_tokens(system: str, task: Task) -> int:
    return tokens_of(system) + tokens_of(task.prompt) + TEMPLATE_TOKENS


def _need(
    base: Mapping[str, Any],
    lora: LoraSettings,
    kind: str,
    precision: str,
    length: int,
    targets: int,
) -> Need:
    rows = lora.rows_at_once or lora.batch_size
    sizes = [
        _training(base, lora, kind, precision, count, length, targets)
        for count in (rows, max(1, rows // SMALLER))
    ]
    return Need(usual=sizes[0], least=sizes[1])


def _training(
    base: Mapping[str, Any],
    lora: LoraSettings,
    kind: str,
    precision: str,
    rows: int,
    length: int,
    targets: int,
) -> int:
    return training_need(
        base,
        lora,
        device=kind,
        precision=precision,
        rows=rows,
        length=length,
        targets=targets,  # only completions are turned into logits
    ).total
