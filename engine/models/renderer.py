"""The one way to turn chat messages into token ids, for training, evaluation and serving alike."""

import hashlib
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.errors import ModelUnavailable
from engine.types import Message

RENDER_SECONDS = 20.0  # a conversation takes milliseconds, a very long one a second


def render_prompt(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of a conversation up to the point where the assistant's answer begins.

    ModelUnavailable when the model's template does not come to an end.
    """
    with _in_time():
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


@contextmanager
def _in_time() -> Iterator[None]:
    """End a foreign template that was well when it was tried and is not now.

    In the main thread of a process, as in the worker; elsewhere the time is not looked at.
    """

    def over(*_: object) -> None:
        raise ModelUnavailable(
            f"the model's chat template takes more than {RENDER_SECONDS:.0f} s for one "
            "conversation: remove this base model, and take it from elsewhere"
        )

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, over)
    left = signal.setitimer(signal.ITIMER_REAL, RENDER_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)


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
