"""Attention for reading and answering on a CPU, without copies of keys that heads share."""

from typing import TYPE_CHECKING, Any

from engine.models.weights import PLAIN_ATTENTION_TOKENS, pick_attention

if TYPE_CHECKING:
    import torch

NAME = "grouped"
# Architectures whose plain attention is a softmax over scaled products and a mask, no more.
PLAIN_MODELS = ("llama", "mistral", "qwen2", "qwen3", "smollm3")


def pick_reading_attention(model: Any, longest: int) -> None:
    """Choose the fastest exact attention for reading rows of up to `longest` tokens.

    It has no backward pass worth having: training picks its own.
    """
    short = model.device.type == "cpu" and longest <= PLAIN_ATTENTION_TOKENS
    if not short or model.config.model_type not in PLAIN_MODELS:
        pick_attention(model, longest)
    elif model.config._attn_implementation != NAME:
        _register()
        model.set_attn_implementation(NAME)


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, eager_mask)


def attend(
    module: Any,
    query: "torch.Tensor",
    key: "torch.Tensor",
    value: "torch.Tensor",
    attention_mask: "torch.Tensor | None",
    scaling: float,
    **_: Any,
) -> "tuple[torch.Tensor, None]":
    """What the model's own plain attention gives (rows x tokens x heads x size).

    The heads that share a key are taken as further queries of one head, so that no key is copied.
    """
    import torch

    rows, heads, tokens, size = query.shape
    shared, slots = key.shape[1], key.shape[2]
    asked = query.reshape(rows, shared, -1, size)
    scores = torch.matmul(asked, key.transpose(2, 3)).mul_(scaling)
    if attention_mask is not None:
        scores.view(rows, shared, -1, tokens, slots).add_(attention_mask[:, :, None])
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
    found = torch.matmul(weights, value).view(rows, heads, tokens, size)
    return found.transpose(1, 2).contiguous(), None
