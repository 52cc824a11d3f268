"""Answers in batches: many asks in, finished batches out, with the same text as one at a time."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.errors import Interrupted
from engine.models.attention import pick_reading_attention
from engine.models.prompts import Reading, group_alike, next_logits, read_prompts, rows_move
from engine.models.renderer import render_prompt
from engine.models.weights import Loaded
from engine.types import Answer, Ask, Stop

MOST_FINISHED = 0.05  # of a batch's rows: carrying more of them on costs more than a copy without


@dataclass(slots=True)
class _Row:
    """One ask on its way: prompt ids, and the tokens written so far."""

    ask: Ask
    ids: list[int]
    written: list[int] = field(default_factory=list)
    finish: str | None = None


def generate(
    loaded: Loaded,
    asks: Sequence[Ask],
    on_batch: Callable[[list[Answer]], None],
    stop: Stop,
    on_tokens: Callable[[int], None],
    share: float = 1.0,
) -> None:
    """Answer all asks, shortest prompts first; Interrupted when `stop` says so between two tokens.

    An answer depends on its ask alone: greedy at temperature 0, else drawn with numbers made from
    the ask's own seed, so that the batch it happens to be in does not matter. `share` below 1 makes
    batches smaller, for when memory ran out.
    """
    rows = [_Row(ask, render_prompt(loaded.tokenizer, ask.messages)) for ask in asks]
    too_long = [row for row in rows if len(row.ids) + row.ask.max_tokens > loaded.context]
    if too_long:
        on_batch([_refuse(row, loaded.context) for row in too_long])
    fitting = [row for row in rows if len(row.ids) + row.ask.max_tokens <= loaded.context]
    lengths = [len(row.ids) + row.ask.max_tokens for row in fitting]
    for numbers in group_alike([row.ids for row in fitting], lengths, loaded.device, share):
        batch = [fitting[number] for number in numbers]
        _write(loaded, batch, stop, on_tokens)
        on_batch([_answer(loaded, row) for row in batch])


def _write(loaded: Loaded, rows: list[_Row], stop: Stop, on_tokens: Callable[[int], None]) -> None:
    """Write the answers of one batch, shortest prompts first, into its rows, token by token."""
    import torch

    pick_reading_attention(loaded.model, max(len(row.ids) + row.ask.max_tokens for row in rows))
    with torch.inference_mode():
        state = _State(rows, read_prompts(loaded, [row.ids for row in rows]))
        on_tokens(sum(len(row.ids) for row in rows))
        while True:
            _choose(loaded, state)
            on_tokens(len(state.rows))
            live = [index for index, row in enumerate(state.rows) if row.finish is None]
            if not live:
                return
            if stop():
                raise Interrupted("stopped while answering")
            if len(live) <= (1 - MOST_FINISHED) * len(state.rows) and rows_move(loaded.model):
                _drop_finished(state, live)
            _advance(loaded, state)


@dataclass(slots=True)
class _State:
    """A batch in the model: its rows, and what it has read."""

    rows: list[_Row]
    read: Reading


def _advance(loaded: Loaded, state: _State) -> None:
    import torch

    read = state.read
    ids = torch.tensor([[row.written[-1]] for row in state.rows], device=loaded.device)
    read.mask = torch.cat([read.mask, torch.ones_like(read.mask[:, :1])], dim=1)
    read.positions = read.positions + 1
    read.logits = next_logits(loaded, ids, read.cache, read.mask, read.positions)


def _choose(loaded: Loaded, state: _State) -> None:
    """Append one token to every row that is not finished."""
    tokens = state.read.logits.argmax(dim=-1).tolist()
    drawn = [
        index
        for index, row in enumerate(state.rows)
        if row.finish is None and row.ask.temperature > 0
    ]
    for index, token in zip(drawn, _draw(state, drawn), strict=True):
        tokens[index] = token
    for row, token in zip(state.rows, tokens, strict=True):
        if row.finish is None:
            row.written.append(token)
            if token in loaded.end_ids:
                row.finish = "stop"
            elif len(row.written) >= row.ask.max_tokens:
                row.finish = "length"


def _draw(state: _State, indices: list[int]) -> list[int]:
    """One token for each row, by the inverse of its distribution at the row's own number."""
    import torch

    if not indices:
        return []
    rows = [state.rows[index] for index in indices]
    device = state.read.logits.device
    heat = torch.tensor([[row.ask.temperature] for row in rows], device=device)
    below = (state.read.logits[indices] / heat).softmax(dim=-1).double().cumsum(dim=-1)
    points = [[_uniform(row.ask.seed, len(row.written))] for row in rows]
    at = torch.tensor(points, device=device, dtype=torch.float64) * below[:, -1:]
    found = torch.searchsorted(below, at, right=True).squeeze(1)
    return found.clamp(max=below.shape[1] - 1).tolist()


def _uniform(seed: int, step: int) -> float:
    """A number in [0, 1) that belongs to this seed and step."""
    digest = hashlib.sha256(f"{seed}:{step}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _drop_finished(state: _State, live: list[int]) -> None:
    import torch

    read = state.read
    index = torch.tensor(live, device=read.mask.device)
    state.rows = [state.rows[i] for i in live]
    read.cache.batch_select_indices(index)
    read.mask = read.mask[index]
    read.positions = read.positions[index]


def _answer(loaded: Loaded, row: _Row) -> Answer:
    ended = bool(row.written) and row.written[-1] in loaded.end_ids
    kept = row.written[:-1] if ended else row.written
    return Answer(
        key=row.ask.key,
        text=loaded.tokenizer.decode(kept, skip_special_tokens=True),
        tokens_in=len(row.ids),
        tokens_out=len(row.written),
        finish=row.finish or "stop",
    )


def _refuse(row: _Row, context: int) -> Answer:
    asked = len(row.ids) + row.ask.max_tokens
    reason = f"prompt and answer need {asked} tokens and the model holds {context}"
    return Answer(key=row.ask.key, text=None, tokens_in=len(row.ids), finish="error", error=reason)
