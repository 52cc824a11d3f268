"""What callers of deployed versions may send, in OpenAI's words, read into plain terms.

What changes an answer and cannot be done is refused by name; what changes nothing is passed over.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from engine.errors import RequestRefused
from engine.types import Message

CHAT, COMPLETIONS = "chat/completions", "completions"
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
MOST_STOPS, LONGEST_STOP, MOST_LOGPROBS = 16, 256, 20
MOST_TOKENS = 2**31 - 1
COLDEST = 1e-5  # below it logits divided by the temperature leave the range of their numbers
# Whoever calls may not choose what a model is asked through, nor what is loaded.
NEVER = ("chat_template", "chat_template_kwargs", "lora_request", "mm_processor_kwargs")
HARMLESS = {
    *("model", "stream", "stream_options", "user", "metadata", "store", "service_tier"),
    *("safety_identifier", "prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls"),
}
# Fields that may be there as long as they say what is so anyway.
USUAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "top_k": (0, -1),
    "min_p": (0,),
    "repetition_penalty": (1,),
}
OWN = {
    CHAT: {"messages", "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs"},
    COMPLETIONS: {"prompt", "max_tokens", "logprobs"},
}
COMMON = {"temperature", "top_p", "seed", "stop"}


def refuse_foreign(body: Mapping[str, Any]) -> None:
    """RequestRefused for what no engine may be told by a caller."""
    for name in NEVER:
        if body.get(name) is not None:
            raise RequestRefused(
                f"{name}: a version is asked through its own template", "forbidden"
            )


def read_request(route: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of engine/models/complete.py's Wanted; RequestRefused names what does not fit."""
    refuse_foreign(body)
    _check_names(route, body)
    wanted: dict[str, Any] = {
        "temperature": _temperature(body),
        "top_p": _number(body, "top_p", 1.0, 0.0, 1.0),
        "seed": _whole(body, "seed", -(2**63), 2**63 - 1),
        "stop": _stops(body.get("stop")),
        "max_tokens": _whole(body, "max_tokens", 1, MOST_TOKENS),
    }
    if wanted["seed"] is None:
        wanted["seed"] = secrets.randbits(31)
    if wanted["top_p"] <= 0:
        raise RequestRefused("top_p: give more than 0, and at most 1")
    if route == CHAT:
        most = _whole(body, "max_completion_tokens", 1, MOST_TOKENS)
        wanted["max_tokens"] = wanted["max_tokens"] if most is None else most
        return wanted | {"messages": read_messages(body), "logprobs": _chat_logprobs(body)}
    return wanted | {
        "prompt": _prompt(body.get("prompt")),
        "logprobs": _whole(body, "logprobs", 0, MOST_LOGPROBS),
    }


def _check_names(route: str, body: Mapping[str, Any]) -> None:
    known = OWN[route] | COMMON | HARMLESS
    for name, value in body.items():
        if name in known or value is None:
            continue
        if name not in USUAL:
            raise RequestRefused(f"{name}: this server does not know it; leave it out")
        if value not in USUAL[name]:
            usual = " or ".join(repr(one) for one in USUAL[name])
            raise RequestRefused(f"{name}: only {usual} can be done here, not {value!r:.60}")


def read_messages(body: Mapping[str, Any]) -> list[Message]:
    """The conversation as plain texts."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestRefused("messages: give a list of at least one message")
    return [_message(one, f"messages[{at}]") for at, one in enumerate(messages)]


def _message(one: Any, place: str) -> Message:
    role = one.get("role") if isinstance(one, dict) else None
    if not isinstance(role, str) or role not in ROLES:
        raise RequestRefused(f"{place}.role: give one of {', '.join(ROLES)}")
    content = one.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part.get("text") if _is_text(part) else None for part in parts]
    if not parts or any(not isinstance(text, str) for text in texts):
        raise RequestRefused(f"{place}.content: give a text; other content is not read here")
    return {"role": ROLES[role], "content": "".join(map(str, texts))}


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text"


def _prompt(prompt: Any) -> str | list[int]:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return prompt
    if isinstance(prompt, list) and prompt and all(type(one) is int for one in prompt):
        return prompt
    raise RequestRefused("prompt: give one text, or one list of token ids")


def _chat_logprobs(body: Mapping[str, Any]) -> int | None:
    asked, top = body.get("logprobs"), _whole(body, "top_logprobs", 0, MOST_LOGPROBS)
    if asked is not None and not isinstance(asked, bool):
        raise RequestRefused("logprobs: give true or false")
    if top is not None and not asked:
        raise RequestRefused("top_logprobs: it needs logprobs: true")
    return (top or 0) if asked else None


def _stops(given: Any) -> list[str]:
    words = [given] if isinstance(given, str) else (given or [])
    fit = isinstance(words, list) and len(words) <= MOST_STOPS
    if not fit or not all(isinstance(w, str) and 0 < len(w) <= LONGEST_STOP for w in words):
        raise RequestRefused(
            f"stop: give up to {MOST_STOPS} texts of 1 to {LONGEST_STOP} characters"
        )
    return list(words)


def _temperature(body: Mapping[str, Any]) -> float:
    """The temperature; one so low that the likeliest token is certain is 0."""
    given = _number(body, "temperature", 1.0, 0.0, 2.0)
    return given if given >= COLDEST else 0.0


def _number(body: Mapping[str, Any], name: str, usual: float, low: float, high: float) -> float:
    value = body.get(name)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RequestRefused(f"{name}: give a number from {low:g} to {high:g}")
    return float(value)


def _whole(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int or not low <= value <= high:
        raise RequestRefused(f"{name}: give a whole number from {low} to {high}")
    return value
