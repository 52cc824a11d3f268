"""One attempt at one answer of a remote model: sent once, read whole, and what it may have cost."""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from engine.models.addresses import AddressRefused, http_client
from engine.models.prices import Usage, read_usage
from engine.types import Message

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0  # between two pieces of an answer
WHOLE_SECONDS = 900.0  # for an answer that drips
BYTES_A_TOKEN = 32  # more text than this for what was allowed is not within max_tokens
FREE_STATUSES = frozenset({401, 403, 404})  # refused before any work was done
CLIENTS = 16  # kept for models that are asked again: making one takes longer than many calls

PLAIN_WORD = re.compile("[a-z_]{3,40}")  # no key, no answer, and no more of a prompt than a word

_making = threading.Lock()


@dataclass(kw_only=True, slots=True, frozen=True)
class RemoteModel:
    """Where a model answers; `local` is an administrator's word that it is near."""

    name: str
    base_url: str
    api_key: str = field(repr=False)
    local: bool = False
    read_seconds: float = READ_SECONDS


@dataclass(kw_only=True, slots=True, frozen=True)
class Reply:
    """An answer as it came; `usage` None when the provider did not say, `raw` its own record."""

    text: str
    finish: str
    usage: Usage | None
    raw: dict[str, Any]


class RemoteFailed(Exception):
    """No answer. `free` when nothing can have been charged; the text holds no prompt and no key.

    `retry` when another attempt makes sense; `overran` when far more came than was allowed.
    """

    def __init__(self, text: str, *, free: bool, retry: bool, overran: bool = False) -> None:
        super().__init__(text)
        self.free, self.retry, self.overran = free, retry, overran


def complete(
    model: RemoteModel,
    messages: Sequence[Message],
    max_tokens: int,
    temperature: float = 0.0,
    seed: int | None = None,
    json_schema: dict[str, Any] | None = None,
) -> Reply:
    """Ask once and read the stream to its end; RemoteFailed says whether it may have cost money."""
    import openai

    try:
        with _making:
            client = _client(model)
        asked = _request(model, messages, max_tokens, temperature, seed, json_schema)
        with client.chat.completions.create(**asked) as stream:
            return _read(model.name, stream, max_tokens)
    except RemoteFailed:
        raise
    except openai.APIStatusError as error:
        raise refused(model.name, error) from None
    except Exception as error:  # noqa: BLE001  whatever it was, the call has to be settled
        raise _broken(model, error) from None


@lru_cache(CLIENTS)
def _client(model: RemoteModel) -> Any:
    import openai

    near = http_client(
        model.base_url,
        local=model.local,
        seconds=model.read_seconds,
        connect=CONNECT_SECONDS,
        whole=WHOLE_SECONDS,
    )
    return openai.OpenAI(
        api_key=model.api_key,
        base_url=model.base_url,
        organization="",
        project="",
        max_retries=0,  # every attempt is reserved, so none may be hidden
        http_client=near,
    )


def _request(
    model: RemoteModel,
    messages: Sequence[Message],
    max_tokens: int,
    temperature: float,
    seed: int | None,
    json_schema: dict[str, Any] | None,
) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": model.name,
        "messages": list(messages),
        "max_tokens": max_tokens,
        "temperature": temperature,
        "n": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if seed is not None:
        asked["seed"] = seed % 2**31
    if json_schema is not None:
        form = {"name": "answer", "schema": json_schema, "strict": True}
        asked["response_format"] = {"type": "json_schema", "json_schema": form}
    return asked


def _read(name: str, stream: Any, max_tokens: int) -> Reply:
    """The pieces put together; an end without a finish reason is an answer that broke off."""
    text: list[str] = []
    finish, raw, size = "", {}, 0
    for piece in stream:
        if piece.usage is not None:
            raw = piece.usage.model_dump(exclude_none=True)
        for choice in piece.choices:
            text.append(choice.delta.content or "")
            size += len(text[-1].encode("utf-8", "surrogatepass"))
            finish = choice.finish_reason or finish
        if size > BYTES_A_TOKEN * (max_tokens + 64):
            said = f"{name} sent over {size:,} bytes where {max_tokens} tokens were allowed"
            raise RemoteFailed(said, free=False, retry=False, overran=True)
    if not finish:
        raise EOFError
    whole = whole_characters("".join(text))
    return Reply(text=whole, finish=finish, usage=read_usage(raw), raw=raw)


def whole_characters(text: str) -> str:
    """Halves of a character that came in two pieces put together; a half alone becomes a mark."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def refused(name: str, error: Any) -> RemoteFailed:
    """A status that is no answer; of what the provider says, the code and the field it names."""
    status = error.status_code
    free = status in FREE_STATUSES
    hint = {
        401: "its key is not accepted: see `python3 run.py model list`",
        403: "its key may not use this model",
        404: "it is not known at that address: check the name and the base URL",
        429: "the provider asks to slow down",
    }.get(status, "the provider refused or failed")
    named = [one for one in (error.code, error.param) if isinstance(one, str)]
    words = ", ".join(one for one in named if PLAIN_WORD.fullmatch(one))
    text = f"{name} answered {status}: {hint}" + (f" ({words})" if words else "")
    return RemoteFailed(text, free=free, retry=status == 429 or status >= 500)


def _broken(model: RemoteModel, error: Exception) -> RemoteFailed:
    """Free when the connection never stood; once a byte was sent nobody can tell."""
    import httpx2

    causes = _causes(error)
    refused = next((one for one in causes if isinstance(one, AddressRefused)), None)
    if refused is not None:
        return RemoteFailed(f"{model.name}: {refused}", free=True, retry=False)
    if any(isinstance(one, httpx2.ConnectError | httpx2.ConnectTimeout) for one in causes):
        text = f"{model.name} cannot be reached at {model.base_url}: {causes[-1]}"
        return RemoteFailed(text, free=True, retry=True)
    if any(isinstance(one, TimeoutError | httpx2.TimeoutException) for one in causes):
        text = f"{model.name} was silent for {model.read_seconds:g} s, or too slow in all"
        return RemoteFailed(text, free=False, retry=True)
    text = f"{model.name}: the answer broke off ({type(causes[-1]).__name__})"
    return RemoteFailed(text, free=False, retry=True)


def _causes(error: BaseException) -> list[BaseException]:
    """An error with what stood behind it, the first cause last."""
    found = [error]
    while (behind := found[-1].__cause__ or found[-1].__context__) is not None:
        found.append(behind)
    return found
