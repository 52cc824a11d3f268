"""Which of some labels a model would answer: read from its logits, without writing an answer.

No phase of a run calls it, and no door: it waits for a port of its own, since whoever asks for
labels waits for the answer. `bench rollout` measures it.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from engine.errors import Interrupted, RequestRefused
from engine.models.attention import pick_reading_attention
from engine.models.prompts import (
    Reading,
    cut_by_length,
    group_alike,
    pass_tokens,
    read_part,
    read_prefix,
)
from engine.models.renderer import plain_ids, render_prompt, render_text
from engine.models.weights import Loaded
from engine.types import LabelAsk, Message, Stop

if TYPE_CHECKING:
    import torch

LOGIT_ROWS = 512  # rows of logits over the vocabulary that are held at once
TAIL = 4  # ids at a prompt's end that decide how a label behind them is cut into tokens

Read = dict[str, dict[str, float]]  # by ask: each label's log probability


@dataclass(kw_only=True, slots=True, frozen=True)
class _Row:
    """One ask: prompt ids, and the ids of each label."""

    key: str
    ids: list[int]
    labels: dict[str, list[int]]

    @property
    def longest(self) -> int:
        return len(self.ids) + max(len(ids) for ids in self.labels.values())


def read_labels(
    loaded: Loaded,
    asks: Sequence[LabelAsk],
    on_batch: Callable[[Read], None],
    stop: Stop,
    on_tokens: Callable[[int], None],
    share: float = 1.0,
) -> None:
    """Tell for every ask the log probability that its answer begins with each of its labels.

    They are those of the model's whole distribution, so that the sum of their exponentials shows
    how much of it the labels have; those of a label's tokens are added up. Prompts are read in one
    pass without decoding, and what they begin with once. RequestRefused, before anything is read,
    where a label could not be told apart. `share` below 1 makes batches smaller.
    """
    import torch

    rows = _rows(loaded, asks)
    known = None
    lengths = [row.longest for row in rows]
    for numbers in group_alike([row.ids for row in rows], lengths, loaded.device, share):
        batch = [rows[number] for number in numbers]
        pick_reading_attention(loaded.model, max(row.longest for row in batch))
        with torch.inference_mode():
            known = read_prefix(loaded, [row.ids for row in batch], known)
            for part in cut_by_length([len(row.ids) for row in batch], pass_tokens(loaded)):
                if stop():
                    raise Interrupted("stopped while reading labels")
                reading = read_part(loaded, known, [row.ids for row in batch[part]])
                on_tokens(sum(len(row.ids) for row in batch[part]))
                on_batch(_read(loaded, reading, batch[part]))


def _rows(loaded: Loaded, asks: Sequence[LabelAsk]) -> list[_Row]:
    labels = _Labels(loaded.tokenizer)
    rows = []
    for ask in asks:
        ids = render_prompt(loaded.tokenizer, ask.messages)
        row = _Row(key=ask.key, ids=ids, labels=labels.of(ask, ids))
        if row.longest > loaded.context:
            raise RequestRefused(
                f"{ask.key}: prompt and label need {row.longest} tokens and the model holds "
                f"{loaded.context}: shorten the prompt",
                "context_length_exceeded",
            )
        rows.append(row)
    return rows


class _Labels:
    """Cuts labels into tokens, and refuses those whose probability could not be read."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._seen: set[tuple[tuple[int, ...], str]] = set()

    def of(self, ask: LabelAsk, prompt: list[int]) -> dict[str, list[int]]:
        """The ids of each label behind a prompt."""
        if not ask.labels or len(set(ask.labels)) < len(ask.labels):
            raise RequestRefused(f"{ask.key}: give at least one label, and each of them once")
        found = {label: plain_ids(self._tokenizer, label) for label in ask.labels}
        for label in ask.labels:
            self._check(ask.messages, prompt, label, found[label])
        ordered = sorted(found.items(), key=lambda one: one[1])
        for (one, ids), (other, others) in pairwise(ordered):
            if others[: len(ids)] == ids:
                raise RequestRefused(
                    f"{ask.key}: label {other!r} begins with label {one!r}, which would seem the "
                    "likelier one always: rename one of them"
                )
        return found

    def _check(
        self, messages: Sequence[Message], prompt: list[int], label: str, ids: list[int]
    ) -> None:
        """That the tokens behind a prompt are those the label has by itself."""
        place = (tuple(prompt[-TAIL:]), label)
        if place in self._seen:
            return
        text = render_text(self._tokenizer, messages) + label
        whole = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        if not ids or [int(token) for token in whole] != [*prompt, *ids]:
            raise RequestRefused(
                f"label {label!r} is not cut into tokens of its own behind this model's prompt: "
                "use another word"
            )
        self._seen.add(place)


def _read(loaded: Loaded, reading: Reading, rows: Sequence[_Row]) -> Read:
    """Log probabilities of every label of some rows, whose prompts have just been read."""
    logprobs = reading.logits.log_softmax(dim=-1)
    found: Read = {}
    longer: list[tuple[int, str]] = []
    for number, row in enumerate(rows):
        first = logprobs[number, [ids[0] for ids in row.labels.values()]].tolist()
        found[row.key] = dict(zip(row.labels, first, strict=True))
        longer += [(number, label) for label, ids in row.labels.items() if len(ids) > 1]
    paths = [(number, rows[number].labels[label]) for number, label in longer]
    for (number, label), rest in zip(longer, _read_rest(loaded, reading, paths), strict=True):
        found[rows[number].key][label] += rest
    return found


def _read_rest(
    loaded: Loaded, reading: Reading, paths: Sequence[tuple[int, list[int]]]
) -> list[float]:
    """For each (row, label ids): log probability of all label tokens but the first."""
    if not paths:
        return []
    width = max(len(ids) for _, ids in paths) - 1
    at_once = max(1, LOGIT_ROWS // width)
    sums: list[float] = []
    for start in range(0, len(paths), at_once):
        sums += _follow(loaded, reading, paths[start : start + at_once], width)
    return sums


def _follow(
    loaded: Loaded, reading: Reading, paths: Sequence[tuple[int, list[int]]], width: int
) -> list[float]:
    """The same for as many as are read at once, padded on the right to `width` tokens."""
    import torch

    device = loaded.device
    rows = torch.tensor([row for row, _ in paths], device=device)
    filler = next(iter(loaded.end_ids))
    padded = [ids + [filler] * (width + 1 - len(ids)) for _, ids in paths]
    ids = torch.tensor(padded, device=device)
    lengths = torch.tensor([len(ids) - 1 for _, ids in paths], device=device)[:, None]
    steps = torch.arange(width, device=device)
    real = steps < lengths
    output = loaded.model(
        input_ids=ids[:, :-1],
        attention_mask=torch.cat([reading.mask[rows], real.long()], dim=1),
        position_ids=reading.positions[rows] + 1 + steps,
        cache=_rows_of(reading.cache, rows),
        use_cache=True,
    )
    logprobs = output.logits.float().log_softmax(dim=-1)
    told = logprobs.gather(2, ids[:, 1:, None]).squeeze(2)
    sums: list[float] = (told * real).sum(dim=1).tolist()
    return sums


def _rows_of(cache: Any, rows: "torch.Tensor") -> Any:
    """A cache with these rows of another, which stays as it is."""
    picked = copy.copy(cache)
    picked.layers = [copy.copy(layer) for layer in cache.layers]
    picked.batch_select_indices(rows)
    return picked
