"""One answer, token by token, for somebody who waits: in pieces, with stop words and logprobs.

Greedy answers have the ids that `generate` gives, and drawn ones too where all of a distribution is
drawn from: prompts, positions and numbers are made alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import Interrupted, RequestRefused
from engine.models.attention import pick_reading_attention
from engine.models.generate import _uniform
from engine.models.prompts import Reading, next_logits, read_prompts
from engine.models.renderer import render_prompt
from engine.models.weights import Loaded
from engine.types import Message, Stop

if TYPE_CHECKING:
    import torch

USUAL_TOKENS = 1024  # of an answer whose length nobody gave, where the context has room
CONTEXT = "context_length_exceeded"


@dataclass(kw_only=True, slots=True, frozen=True)
class Wanted:
    """A request in plain terms: `messages` for a chat, else `prompt`, a text or token ids.

    `top_p` below 1 draws from the likeliest tokens that have that much together. `logprobs` is how
    many of the likeliest tokens are told beside each token, None for not even its own.
    """

    messages: list[Message] | None = None
    prompt: str | list[int] | None = None
    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    logprobs: int | None = None

    @classmethod
    def from_plain(cls, fields: Mapping[str, Any]) -> "Wanted":
        """From JSON, which has no tuples."""
        return cls(**{**fields, "stop": tuple(fields.get("stop", ()))})


Report = Callable[[dict[str, Any]], None]


def complete(
    loaded: Loaded, wanted: Wanted, tell: Report, stop: Stop, on_tokens: Callable[[int], None]
) -> None:
    """Write one answer and tell it in pieces; Interrupted when `stop` says so between two tokens.

    The first piece has `tokens_in`, the last one `finish` ("stop" or "length") and `tokens_out`;
    each has `text`, and `tokens` where logprobs are wanted. RequestRefused when prompt and answer
    do not fit the context.
    """
    import torch

    ids = _prompt(loaded, wanted)
    most = _room(loaded, len(ids), wanted.max_tokens)
    pick_reading_attention(loaded.model, len(ids) + most)
    text = _Text(loaded.tokenizer, wanted.stop)
    written: list[int] = []
    with torch.inference_mode():
        read = read_prompts(loaded, [ids])
        on_tokens(len(ids))
        tell({"tokens_in": len(ids), "text": "", "tokens": []})
        while True:
            logits = read.logits[0]
            token = _choose(logits, wanted, len(written))
            written.append(token)
            on_tokens(1)
            ended = token in loaded.end_ids
            told = [] if ended else _tokens(loaded, logits, token, wanted.logprobs)
            piece = "" if ended else text.add(token)
            if ended or text.stopped or len(written) >= most:
                finish = "stop" if ended or text.stopped else "length"
                piece += text.rest()
                tell({"text": piece, "tokens": told, "finish": finish, "tokens_out": len(written)})
                return
            if piece or told:
                tell({"text": piece, "tokens": told})
            if stop():
                raise Interrupted("stopped while answering")
            _go_on(loaded, read, token)


def _prompt(loaded: Loaded, wanted: Wanted) -> list[int]:
    from jinja2 import TemplateError

    if wanted.messages is not None:
        try:
            return render_prompt(loaded.tokenizer, wanted.messages)
        except TemplateError as error:
            raise RequestRefused(f"messages: the model's template refuses them: {error}") from None
    if isinstance(wanted.prompt, list):
        words = loaded.model.get_input_embeddings().num_embeddings
        if not all(0 <= token < words for token in wanted.prompt):
            raise RequestRefused(f"prompt: token ids are from 0 to {words - 1}")
        return wanted.prompt
    return [int(token) for token in loaded.tokenizer(wanted.prompt or "")["input_ids"]]


def _room(loaded: Loaded, prompt: int, asked: int | None) -> int:
    """How many tokens the answer may have."""
    left = loaded.context - prompt
    if left < 1 or (asked or 0) > left:
        needs = f"{prompt} of the prompt and {asked} of the answer" if asked else f"{prompt}"
        text = f"this model holds {loaded.context} tokens and {needs} were asked for: ask for fewer"
        raise RequestRefused(text, CONTEXT)
    if prompt < 1:
        raise RequestRefused("prompt: it has no token", "invalid_request")
    return min(left, USUAL_TOKENS) if asked is None else asked


def _go_on(loaded: Loaded, read: Reading, token: int) -> None:
    """Read one more token."""
    import torch

    ids = torch.tensor([[token]], device=loaded.device)
    read.mask = torch.cat([read.mask, torch.ones_like(read.mask[:, :1])], dim=1)
    read.positions = read.positions + 1
    read.logits = next_logits(loaded, ids, read.cache, read.mask, read.positions)


def _choose(logits: "torch.Tensor", wanted: Wanted, step: int) -> int:
    """The likeliest token at temperature 0, else one drawn at this seed's and step's own number."""
    import torch

    if wanted.temperature <= 0:
        return int(logits.argmax())
    weights = (logits / wanted.temperature).softmax(dim=-1).double()
    if wanted.top_p < 1:
        ordered, at = weights.sort(descending=True)
        # The token with which the sum passes top_p still counts.
        kept = ordered.cumsum(0) - ordered < wanted.top_p
        weights[at[~kept]] = 0.0
    below = weights.cumsum(0)
    point = torch.tensor([_uniform(wanted.seed, step)], device=below.device, dtype=torch.float64)
    found = int(torch.searchsorted(below, point * below[-1:], right=True)[0])
    return min(found, below.shape[0] - 1)


def _tokens(
    loaded: Loaded, logits: "torch.Tensor", token: int, likeliest: int | None
) -> list[dict[str, Any]]:
    """The token with its logprob in the model's own distribution, and the likeliest beside it."""
    if likeliest is None:
        return []
    logprobs = logits.log_softmax(dim=-1)
    top = logprobs.topk(likeliest) if likeliest else None
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True) if top else ()
    told = [_told(loaded, one, logprob) for one, logprob in pairs]
    return [_told(loaded, token, float(logprobs[token])) | {"top": told}]


def _told(loaded: Loaded, token: int, logprob: float) -> dict[str, Any]:
    return {"token": loaded.tokenizer.decode([token]), "logprob": logprob}


@dataclass(slots=True)
class _Text:
    """Tokens in, text out: whole characters alone, and nothing that may begin a stop word.

    The text up to a token is decoded together with a few tokens before it, since what a token
    spells may depend on them.
    """

    tokenizer: Any
    stop: tuple[str, ...]
    ids: list[int] = field(default_factory=list)
    start: int = 0  # from here on tokens are decoded
    shown: int = 0  # up to here their text was taken
    held: str = ""  # text that may begin a stop word
    stopped: bool = False

    def add(self, token: int) -> str:
        """The text that is certain after one more token."""
        self.ids.append(token)
        before = self._decode(self.start, self.shown)
        after = self._decode(self.start, len(self.ids))
        if after.endswith("\ufffd"):  # a character whose other bytes are still to come
            return ""
        self.start, self.shown = self.shown, len(self.ids)
        return self._release(after[len(before) :])

    def rest(self) -> str:
        """What was held back, at the end of the answer."""
        if self.stopped:
            return ""
        after = self._decode(self.start, len(self.ids))
        more = after[len(self._decode(self.start, self.shown)) :]
        return self._release(more) + ("" if self.stopped else self.held)

    def _decode(self, start: int, end: int) -> str:
        return str(self.tokenizer.decode(self.ids[start:end], skip_special_tokens=True))

    def _release(self, more: str) -> str:
        text = self.held + more
        found = [at for word in self.stop if (at := text.find(word)) >= 0]
        if found:
            self.held, self.stopped = "", True
            return text[: min(found)]
        keep = max((_overlap(text, word) for word in self.stop), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, word: str) -> int:
    """How many characters at the end of a text are the beginning of a word."""
    most = min(len(text), len(word) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(word[:n])), 0)
