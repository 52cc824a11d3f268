"""What vLLM is sent and what comes back: allowed fields, reasons of a refusal, chunks of a stream."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from engine.errors import HostGone, RequestRefused
from engine.serving.bodies import CHAT, HARMLESS, read_messages, refuse_foreign

SAMPLING = (
    *("frequency_penalty", "presence_penalty", "temperature", "top_p", "seed", "stop", "n"),
    *("logit_bias", "logprobs", "max_tokens", "stream_options"),
)
ALLOWED_FIELDS = {
    "chat/completions": frozenset(
        {*SAMPLING, "messages", "max_completion_tokens", "top_logprobs", "response_format"}
    ),
    "completions": frozenset({*SAMPLING, "prompt", "echo", "suffix"}),
}


def checked_fields(route: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body that vLLM is given, of a conversation its texts alone: vLLM would fetch
    what is behind an address. RequestRefused names what is not allowed."""
    allowed = ALLOWED_FIELDS.get(route)
    if allowed is None:
        raise RequestRefused(f"there is no route {route}", "unknown_route")
    refuse_foreign(body)
    strange = sorted(name for name in set(body) - allowed - HARMLESS if body[name] is not None)
    if strange:
        text = f"{strange[0]}: this server does not know it; leave it out"
        raise RequestRefused(text, "unsupported_field")
    fields = {name: value for name, value in body.items() if name in allowed}
    return fields | {"messages": read_messages(body)} if route == CHAT else fields


def refusal(answer: httpx.Response) -> RequestRefused:
    """What to raise for a request that vLLM refused."""
    text = said(answer)
    too_long = "maximum context length" in text or "max_model_len" in text
    return RequestRefused(text, "context_length_exceeded" if too_long else "invalid_request")


def said(answer: httpx.Response) -> str:
    """The reason in an answer that is an error, in one line."""
    try:
        record = answer.json()
        error = record.get("error", record)
        return str(error.get("message", error) if isinstance(error, dict) else error)[:500]
    except (ValueError, AttributeError):
        return f"status {answer.status_code}"


def chunks(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """The JSON of each server-sent event, until the one that says that nothing follows."""
    for line in response.iter_lines():
        if not line.startswith("data: "):
            continue
        if line == "data: [DONE]":
            return
        chunk: dict[str, Any] = json.loads(line.removeprefix("data: "))
        if "error" in chunk:
            raise HostGone(f"vLLM failed: {str(chunk['error'])[:500]}")
        yield chunk
