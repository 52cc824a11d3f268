"""The worker's pieces of an answer in the shapes of OpenAI's API, whole and in chunks."""

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.serving.bodies import CHAT

Piece = dict[str, Any]


@dataclass(kw_only=True, slots=True)
class Shaper:
    """One answer's shapes. `told` is whether logprobs were asked for."""

    route: str
    model: str
    told: bool
    tokens_in: int = 0
    tokens_out: int = 0
    length: int = 0  # characters so far, which places tokens in a completion
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """The answer of all pieces."""
        text = "".join(piece["text"] for piece in pieces)
        tokens = [token for piece in pieces for token in piece["tokens"]]
        said = self._said(text, tokens)
        if self.route == CHAT:
            said = {"message": {"role": "assistant", "content": text, "refusal": None}} | said
        choice = {"index": 0, **said, "finish_reason": pieces[-1]["finish"]}
        self._count(pieces)
        return self._record("", [choice]) | {"usage": self._usage()}

    def chunks(self, pieces: Iterator[Piece], usage: bool) -> Iterator[dict[str, Any]]:
        """A chunk for each piece as it comes, then one without a choice where usage is asked for.

        Each has the usage so far then: who leaves early has used the prompt all the same.
        """
        for piece in pieces:
            self._count([piece])
            first = "tokens_in" in piece
            if first and self.route != CHAT:
                continue
            said = self._said(piece["text"], piece["tokens"])
            if self.route == CHAT:
                delta = {"role": "assistant", "content": ""} if first else {}
                delta |= {"content": piece["text"]} if piece["text"] else {}
                said = {"delta": delta} | said
            choice = {"index": 0, **said, "finish_reason": piece.get("finish")}
            more = {"usage": self._usage()} if usage else {}
            yield self._record(".chunk", [choice]) | more
        if usage:
            yield self._record(".chunk", []) | {"usage": self._usage()}

    def _said(self, text: str, tokens: list[dict[str, Any]]) -> dict[str, Any]:
        if self.route == CHAT:
            content = [_content(token) for token in tokens]
            told = {"content": content, "refusal": None} if self.told and tokens else None
            return {"logprobs": told}
        return {"text": text, "logprobs": self._plain(tokens) if self.told else None}

    def _plain(self, tokens: list[dict[str, Any]]) -> dict[str, Any]:
        """Logprobs as completions have them: four lists side by side."""
        offsets = []
        for token in tokens:
            offsets.append(self.length)
            self.length += len(token["token"])
        return {
            "tokens": [token["token"] for token in tokens],
            "token_logprobs": [token["logprob"] for token in tokens],
            "top_logprobs": [
                {one["token"]: one["logprob"] for one in token["top"]} for token in tokens
            ],
            "text_offset": offsets,
        }

    def _count(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            self.tokens_in += piece.get("tokens_in", 0)
            self.tokens_out += piece.get("tokens_out", 0)

    def _usage(self) -> dict[str, int]:
        total = self.tokens_in + self.tokens_out
        return {
            "prompt_tokens": self.tokens_in,
            "completion_tokens": self.tokens_out,
            "total_tokens": total,
        }

    def _record(self, part: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        chat = self.route == CHAT
        kind = f"chat.completion{part}" if chat else "text_completion"
        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def _content(token: dict[str, Any]) -> dict[str, Any]:
    top = [_logprob(one) for one in token["top"]]
    return _logprob(token) | {"top_logprobs": top}


def _logprob(token: dict[str, Any]) -> dict[str, Any]:
    spelled = str(token["token"])
    return {"token": spelled, "logprob": token["logprob"], "bytes": list(spelled.encode())}
