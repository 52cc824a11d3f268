"""The loss of a training step on its completion tokens, and its gradients, part by part."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from engine.models.batches import PASS_TOKENS, TrainRow, shared_beginning, split_step
from engine.models.prompts import rows_move

if TYPE_CHECKING:
    import torch

LOSS_TOKENS = 512  # whose logits are computed at once where they are computed again


def accumulate(
    wrapped: Any,
    batch: Sequence[TrainRow],
    part_rows: int,
    on_tokens: Callable[[int], None] = lambda count: None,
) -> float:
    """Add the gradients of a batch to the parameters; its loss, averaged over rows."""
    model = wrapped.get_base_model()
    pass_tokens = PASS_TOKENS[model.device.type]
    total = 0.0
    for part in split_step(batch, part_rows, pass_tokens):
        # What is computed again keeps no keys and values that other rows could share.
        alone = model.is_activation_checkpointing or not rows_move(model)
        shared = 0 if alone else shared_beginning(part, pass_tokens)
        loss = _part_loss(model, part, shared) / len(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
        on_tokens(sum(len(row.ids) for row in part))
    return total


def _part_loss(model: Any, part: Sequence[TrainRow], shared: int) -> "torch.Tensor":
    """Sum over rows of the mean cross-entropy of their completion tokens, a scalar."""
    import torch

    hidden = _hidden_states(model, part, shared)
    at = [
        (number, index - 1 - shared)
        for number, row in enumerate(part)
        for index in range(row.start, len(row.ids))
    ]
    targets = [token for row in part for token in row.ids[row.start :]]
    weights = [1 / row.targets for row in part for _ in range(row.targets)]
    rows, columns = torch.tensor(at, device=hidden.device).unbind(dim=1)
    losses = _token_losses(
        model, hidden[rows, columns], torch.tensor(targets, device=hidden.device)
    )
    return (losses * torch.tensor(weights, device=hidden.device)).sum()


def _token_losses(model: Any, hidden: "torch.Tensor", targets: "torch.Tensor") -> "torch.Tensor":
    """Cross-entropy of each target token.

    Where activations are computed again, so are logits: those of a whole row would be larger than
    everything else together.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    head = model.get_output_embeddings()

    def losses(some: "torch.Tensor", their: "torch.Tensor") -> "torch.Tensor":
        return torch.nn.functional.cross_entropy(head(some).float(), their, reduction="none")

    if not model.is_activation_checkpointing:
        return losses(hidden, targets)
    cut = [torch.split(tensor, LOSS_TOKENS) for tensor in (hidden, targets)]
    parts = zip(*cut, strict=True)
    again = [checkpoint(losses, some, their, use_reentrant=False) for some, their in parts]
    return torch.cat(again)


def _hidden_states(model: Any, part: Sequence[TrainRow], shared: int) -> "torch.Tensor":
    """Last hidden states (rows x columns x width) of what follows the first `shared` tokens.

    Those tokens, alike in all rows, are computed once within the step and their keys and values
    serve every row; gradients of all rows flow back through them, so that the result is that of
    full rows. Rows are padded on the right, where causal attention never looks.
    """
    import torch
    from transformers import DynamicCache

    cache = None
    if shared:
        cache = DynamicCache(config=model.config)
        beginning = torch.tensor([part[0].ids[:shared]], device=model.device)
        model.base_model(input_ids=beginning, cache=cache, use_cache=True)
        cache.batch_repeat_interleave(len(part))
    width = max(len(row.ids) for row in part) - 1 - shared
    # The last token of a row predicts nothing, so it is not fed.
    padded = [(row.ids[shared:-1] + [0] * width)[:width] for row in part]
    ids = torch.tensor(padded, device=model.device)
    output = model.base_model(input_ids=ids, cache=cache, use_cache=cache is not None)
    return output.last_hidden_state  # type: ignore[no-any-return]
