"""Answers in batches: many asks in, finished batches out, with the same text as one at a time."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import Interrupted
from engine.models.renderer import render_prompt
from engine.models.weights import Loaded, pick_attention
from engine.types import Answer, Ask, Stop

if TYPE_CHECKING:
    import torch

BATCH_ROWS = {"cpu": 64, "cuda": 256}
BATCH_TOKENS = {"cpu": 16_384, "cuda": 262_144}
SHORTEST_PREFIX = 8  # sharing fewer tokens does not pay for a forward pass of their own


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
    for batch in _batches(fitting, loaded.device, share):
        _write(loaded, batch, stop, on_tokens)
        on_batch([_answer(loaded, row) for row in batch])


def _batches(rows: list[_Row], device: str, share: float) -> list[list[_Row]]:
    """Rows that begin alike and are about as long come together; each batch fits the budget."""
    kind = device.split(":")[0]
    most_rows = max(1, int(BATCH_ROWS[kind] * share))
    most_tokens = BATCH_TOKENS[kind] * share
    batches: list[list[_Row]] = []
    longest = 0
    for row in sorted(rows, key=lambda row: (row.ids[:SHORTEST_PREFIX], len(row.ids))):
        longest = max(longest, len(row.ids) + row.ask.max_tokens)
        room = batches and len(batches[-1]) < most_rows
        if not room or longest * (len(batches[-1]) + 1) > most_tokens:
            batches.append([])
            longest = len(row.ids) + row.ask.max_tokens
        batches[-1].append(row)
    return batches


def _write(loaded: Loaded, rows: list[_Row], stop: Stop, on_tokens: Callable[[int], None]) -> None:
    """Write the answers of one batch into its rows, token by token."""
    import torch

    pick_attention(loaded.model, max(len(row.ids) + row.ask.max_tokens for row in rows))
    with torch.inference_mode():
        state = _read_prompts(loaded, rows)
        on_tokens(sum(len(row.ids) for row in rows))
        while True:
            _choose(loaded, state)
            on_tokens(len(state.rows))
            live = [index for index, row in enumerate(state.rows) if row.finish is None]
            if not live:
                return
            if stop():
                raise Interrupted("stopped while answering")
            if len(live) <= 0.75 * len(state.rows):
                _drop_finished(state, live)
            _advance(loaded, state)


@dataclass(slots=True)
class _State:
    """A batch in the model: its rows, their cache, and the logits of the next token.

    `mask` is 1 where the cache holds a real token (rows x slots); `positions` counts those.
    """

    rows: list[_Row]
    cache: Any
    mask: "torch.Tensor"
    positions: "torch.Tensor"
    logits: "torch.Tensor"


def _read_prompts(loaded: Loaded, rows: list[_Row]) -> _State:
    """Run the prompts: what all rows begin with once, the rest padded on the left."""
    import torch
    from transformers import DynamicCache

    shared = common_prefix([row.ids for row in rows])
    if len(rows) == 1 or shared < SHORTEST_PREFIX:
        shared = 0
    cache = DynamicCache(config=loaded.model.config)
    if shared:
        prefix = torch.tensor([rows[0].ids[:shared]], device=loaded.device)
        loaded.model.base_model(input_ids=prefix, cache=cache, use_cache=True)
        cache.batch_repeat_interleave(len(rows))
    width = max(len(row.ids) for row in rows) - shared
    pad = [width - (len(row.ids) - shared) for row in rows]
    filler = next(iter(loaded.end_ids))
    padded = [[filler] * gap + row.ids[shared:] for gap, row in zip(pad, rows, strict=True)]
    ids = torch.tensor(padded, device=loaded.device)
    slots = torch.arange(shared + width, device=loaded.device)
    gaps = torch.tensor(pad, device=loaded.device)[:, None]
    mask = ((slots < shared) | (slots >= shared + gaps)).long()
    positions = (slots[shared:] - gaps).clamp(min=0)
    logits = _run(loaded, ids, cache, mask, positions)
    return _State(list(rows), cache, mask, positions[:, -1:], logits)


def common_prefix(rows: Sequence[list[int]]) -> int:
    """How many ids all rows begin with alike, leaving at least one id of each row over."""
    first, last = min(rows), max(rows)
    length = min(len(row) for row in rows) - 1
    return next((index for index in range(length) if first[index] != last[index]), length)


def _advance(loaded: Loaded, state: _State) -> None:
    import torch

    ids = torch.tensor([[row.written[-1]] for row in state.rows], device=loaded.device)
    one = torch.ones_like(state.mask[:, :1])
    state.mask = torch.cat([state.mask, one], dim=1)
    state.positions = state.positions + 1
    state.logits = _run(loaded, ids, state.cache, state.mask, state.positions)


def _run(
    loaded: Loaded,
    ids: "torch.Tensor",
    cache: Any,
    mask: "torch.Tensor",
    positions: "torch.Tensor",
) -> "torch.Tensor":
    """Logits of the last position, rows x vocabulary, in float32."""
    import torch

    # An index copies that position; a slice would leave a strided view, for which PyTorch on a CPU
    # copies the whole vocabulary matrix once per row.
    last = torch.tensor([ids.shape[1] - 1], device=ids.device)
    output = loaded.model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        cache=cache,
        use_cache=True,
        logits_to_keep=last,
    )
    return output.logits[:, -1].float()  # type: ignore[no-any-return]


def _choose(loaded: Loaded, state: _State) -> None:
    """Append one token to every row that is not finished."""
    tokens = state.logits.argmax(dim=-1).tolist()
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
    device = state.logits.device
    heat = torch.tensor([[row.ask.temperature] for row in rows], device=device)
    below = (state.logits[indices] / heat).softmax(dim=-1).double().cumsum(dim=-1)
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

    index = torch.tensor(live, device=state.mask.device)
    state.rows = [state.rows[i] for i in live]
    state.cache.batch_select_indices(index)
    state.mask = state.mask[index]
    state.positions = state.positions[index]


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
