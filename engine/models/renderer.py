"""The one way to turn chat messages into token ids, for training, evaluation and serving alike."""

import hashlib
from collections.abc import Sequence
from typing import Any

from engine.types import Message


def render_prompt(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of a conversation up to the point where the assistant's answer begins."""
    rendered = tokenizer.apply_chat_template(
        list(messages), add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return [int(token) for token in rendered]


def render_text(tokenizer: Any, messages: Sequence[Message]) -> str:
    """The text that `render_prompt` gives the ids of."""
    text: str = tokenizer.apply_chat_template(
        list(messages), add_generation_prompt=True, tokenize=False
    )
    return text


def render_row(
    tokenizer: Any, messages: Sequence[Message], completion: str, ends: bool
) -> tuple[list[int], int]:
    """Token ids of a training row, and where its completion starts in them.

    The end token closes the completion when `ends`; without it the answer was cut off, and stopping
    there must not be learnt.
    """
    prompt = render_prompt(tokenizer, messages)
    end = [int(tokenizer.eos_token_id)] if ends else []
    return [*prompt, *plain_ids(tokenizer, completion), *end], len(prompt)


def template_hash(tokenizer: Any) -> str:
    """16 hex digits that change when the template, the vocabulary or the end token does."""
    vocabulary = hashlib.sha256()
    for token, number in sorted(tokenizer.get_vocab().items()):
        vocabulary.update(f"{number} {token}\n".encode())
    parts = (str(tokenizer.chat_template), str(tokenizer.eos_token_id), vocabulary.hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def plain_ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids of what an assistant writes."""
    # Words such as "<|im_end|>" in an answer are text here: only the template sets control tokens.
    encoded = tokenizer(text, add_special_tokens=False, split_special_tokens=True)
    return [int(token) for token in encoded["input_ids"]]
