"""Prompts read into a model together: what they begin with once, the rest by length."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.models.weights import Loaded

if TYPE_CHECKING:
    import torch

SHORTEST_PREFIX = 8  # sharing fewer tokens does not pay for a forward pass of their own
# What one more pass through the model costs beside its tokens, in tokens.
PASS_TOKENS = {"cpu": 20, "cuda": 4096}
BATCH_ROWS = {"cpu": 64, "cuda": 256}
BATCH_TOKENS = {"cpu": 16_384, "cuda": 262_144}


def group_alike(
    prompts: Sequence[list[int]], lengths: Sequence[int], device: str, share: float
) -> list[list[int]]:
    """Row numbers of batches: rows that begin alike and are about as long come together.

    `lengths` are of prompts with what is to follow them. Without its first batches the rest is cut
    as before, so that work which goes on later has the same batches. `share` below 1 makes them
    smaller, for when memory ran out.
    """
    kind = device.split(":")[0]
    most_rows, most_tokens = max(1, int(BATCH_ROWS[kind] * share)), BATCH_TOKENS[kind] * share
    batches: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(prompts)), key=lambda row: _place(prompts[row])):
        longest = max(longest, lengths[row])
        room = batches and len(batches[-1]) < most_rows
        if not room or longest * (len(batches[-1]) + 1) > most_tokens:
            batches.append([])
            longest = lengths[row]
        batches[-1].append(row)
    return [sorted(batch, key=lambda row: len(prompts[row])) for batch in batches]


def _place(ids: list[int]) -> tuple[list[int], int]:
    return ids[:SHORTEST_PREFIX], len(ids)


@dataclass(slots=True)
class Reading:
    """Rows in the model: their cache, and the logits of the next token.

    `mask` is 1 where the cache holds a real token (rows x slots); `positions` has the place of each
    row's last token (rows x 1); `logits` are rows x vocabulary in float32.
    """

    cache: Any
    mask: "torch.Tensor"
    positions: "torch.Tensor"
    logits: "torch.Tensor"


def read_prompts(loaded: Loaded, prompts: Sequence[list[int]]) -> Reading:
    """Read prompts, which come shortest first, to be gone on with as one batch."""
    prefix = read_prefix(loaded, prompts)
    parts = cut_by_length([len(ids) for ids in prompts], pass_tokens(loaded))
    if len(parts) > 1 and not _can_join(loaded):
        parts = [slice(0, len(prompts))]
    return _join([read_part(loaded, prefix, prompts[part]) for part in parts], prefix.length)


@dataclass(kw_only=True, slots=True, frozen=True)
class Prefix:
    """What prompts begin with alike, and the cache of one row that has read it."""

    ids: list[int]
    cache: Any

    @property
    def length(self) -> int:
        """How many tokens it has."""
        return len(self.ids)


def read_prefix(
    loaded: Loaded, prompts: Sequence[list[int]], known: Prefix | None = None
) -> Prefix:
    """Read once what all prompts begin with, unless it is known; empty where that does not pay."""
    import torch
    from transformers import DynamicCache

    shared = common_prefix(prompts)
    if len(prompts) == 1 or shared < SHORTEST_PREFIX or not rows_move(loaded.model):
        shared = 0
    ids = prompts[0][:shared]
    if known is not None and known.ids == ids:
        return known
    cache = DynamicCache(config=loaded.model.config)
    if shared:
        row = torch.tensor([ids], device=loaded.device)
        loaded.model.base_model(input_ids=row, cache=cache, use_cache=True)
    return Prefix(ids=ids, cache=cache)


def rows_move(model: Any) -> bool:
    """Whether rows that a model has read can be repeated and left out: linear attention keeps
    states with which the library does neither."""
    from transformers import DynamicCache

    layers = DynamicCache(config=model.config).layers
    return all(hasattr(layer, "batch_repeat_interleave") for layer in layers)


def common_prefix(rows: Sequence[list[int]]) -> int:
    """How many ids all rows begin with alike, leaving at least one id of each row over."""
    first, last = min(rows), max(rows)
    length = min(len(row) for row in rows) - 1
    return next((index for index in range(length) if first[index] != last[index]), length)


def pass_tokens(loaded: Loaded) -> int:
    """What one more pass costs on the model's device, in tokens."""
    return PASS_TOKENS[loaded.device.split(":")[0]]


def cut_by_length(lengths: Sequence[int], a_pass: int) -> list[slice]:
    """Cut rows, shortest first, into the parts that cost least: a pass each, and their padding."""
    cheapest, cut_before = [0], [0]
    for end in range(1, len(lengths) + 1):
        cost, start = min(
            (cheapest[start] + a_pass + lengths[end - 1] * (end - start), start)
            for start in range(end)
        )
        cheapest.append(cost)
        cut_before.append(start)
    parts = []
    end = len(lengths)
    while end:
        parts.append(slice(cut_before[end], end))
        end = cut_before[end]
    return parts[::-1]


def read_part(loaded: Loaded, prefix: Prefix, prompts: Sequence[list[int]]) -> Reading:
    """Read prompts that begin with a prefix in one pass, padded between it and their own tokens."""
    import torch

    shared = prefix.length
    cache = copy.deepcopy(prefix.cache)
    if shared:
        cache.batch_repeat_interleave(len(prompts))
    width = max(len(ids) for ids in prompts) - shared
    pad = [width - (len(ids) - shared) for ids in prompts]
    filler = next(iter(loaded.end_ids))
    padded = [[filler] * gap + ids[shared:] for gap, ids in zip(pad, prompts, strict=True)]
    slots = torch.arange(shared + width, device=loaded.device)
    gaps = torch.tensor(pad, device=loaded.device)[:, None]
    mask = ((slots < shared) | (slots >= shared + gaps)).long()
    positions = (slots[shared:] - gaps).clamp(min=0)
    ids = torch.tensor(padded, device=loaded.device)
    logits = next_logits(loaded, ids, cache, mask, positions)
    return Reading(cache, mask, positions[:, -1:], logits)


def next_logits(
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


def _can_join(loaded: Loaded) -> bool:
    """Whether every layer keeps plain keys and values, which can be moved by some slots."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    layers = DynamicCache(config=loaded.model.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def _join(parts: list[Reading], shared: int) -> Reading:
    """One batch of several: narrower parts get their gap behind the first `shared` slots."""
    import torch

    if len(parts) == 1:
        return parts[0]
    width = max(part.mask.shape[1] for part in parts)
    gaps = [width - part.mask.shape[1] for part in parts]
    joined = parts[0].cache
    for number, layer in enumerate(joined.layers):
        own = [part.cache.layers[number] for part in parts]
        keys = [_widen(one.keys, shared, gap, 2) for one, gap in zip(own, gaps, strict=True)]
        values = [_widen(one.values, shared, gap, 2) for one, gap in zip(own, gaps, strict=True)]
        layer.keys, layer.values = torch.cat(keys), torch.cat(values)
        for one in own[1:]:  # so that no more than one layer is there twice
            one.keys = one.values = None
    masks = [_widen(part.mask, shared, gap, 1) for part, gap in zip(parts, gaps, strict=True)]
    positions = torch.cat([part.positions for part in parts])
    return Reading(joined, torch.cat(masks), positions, torch.cat([part.logits for part in parts]))


def _widen(tensor: "torch.Tensor", at: int, gap: int, dim: int) -> "torch.Tensor":
    """The same with `gap` zeros from `at` on in one dimension."""
    import torch

    if not gap:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = gap
    before, after = tensor.narrow(dim, 0, at), tensor.narrow(dim, at, tensor.shape[dim] - at)
    return torch.cat([before, tensor.new_zeros(shape), after], dim=dim)
