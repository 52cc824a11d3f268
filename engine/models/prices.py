"""What a call may cost at most, and what it did cost: integer micro-dollars, rounded up."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data.tables import GatewayModel

MTOK = 1_000_000
MESSAGE_TOKENS = 16  # a bound on what a message costs beside its bytes
MOST_TOKENS = 10**9  # of one answer: more is no count

Messages = Sequence[Mapping[str, str]]


@dataclass(kw_only=True, slots=True, frozen=True)
class Usage:
    """Token counts of one answer; `cached` is the part of `tokens_in` read from a cache."""

    tokens_in: int
    cached: int
    tokens_out: int


def price_of(model: GatewayModel) -> dict[str, Any]:
    """A model's price in micro-dollars per million tokens, as every call keeps it."""
    return {
        "input": model.input_micro_per_mtok,
        "output": model.output_micro_per_mtok,
        "cached": model.cached_micro_per_mtok,
        "tiers": list(model.tiers or []),
    }


def worst_case(
    price: Mapping[str, Any],
    messages: Messages,
    max_tokens: int,
    json_schema: Mapping[str, Any] | None = None,
) -> int:
    """The most that one attempt can cost: bytes bound tokens from above, every tier counts.

    A byte-level tokenizer never makes more tokens than bytes. The highest price of any tier, cached
    reading included, is taken for all of them.
    """
    tokens_in = most_tokens_in(messages, json_schema)
    return _micro(tokens_in * highest(price, "input") + max_tokens * highest(price, "output"))


def affordable(
    price: Mapping[str, Any],
    messages: Messages,
    amount: int,
    json_schema: Mapping[str, Any] | None = None,
) -> int:
    """The most tokens of answer for which the worst case is within `amount`; 0 when none are."""
    tokens_in = most_tokens_in(messages, json_schema)
    for_answer = amount * MTOK - tokens_in * highest(price, "input")
    return max(0, for_answer // max(1, highest(price, "output")))


def most_tokens_in(messages: Messages, json_schema: Mapping[str, Any] | None) -> int:
    """A bound on the tokens of a request; a schema is counted, since providers read it as well."""
    sent = json.dumps(list(messages), ensure_ascii=False)
    if json_schema is not None:
        sent += json.dumps(json_schema, ensure_ascii=False)
    return len(sent.encode("utf-8", "surrogatepass")) + MESSAGE_TOKENS * len(messages)


def actual(price: Mapping[str, Any], usage: Usage) -> int:
    """What the counted tokens cost; a long request is priced whole by the tier that it reaches."""
    tier = _tier(price, usage.tokens_in)
    fresh = usage.tokens_in - usage.cached
    cached_price = tier["cached"] if tier.get("cached") is not None else tier["input"]
    return _micro(
        fresh * tier["input"] + usage.cached * cached_price + usage.tokens_out * tier["output"]
    )


def highest(price: Mapping[str, Any], kind: str) -> int:
    """The highest price per million tokens of input or output among all tiers."""
    tiers = [price, *price.get("tiers", [])]
    prices = [int(one[kind]) for one in tiers]
    if kind == "input":
        prices += [int(one["cached"]) for one in tiers if one.get("cached") is not None]
    return max(prices)


def read_usage(raw: Mapping[str, Any] | None) -> Usage | None:
    """Token counts out of a provider's own usage record, or None when it does not say.

    Reasoning is part of the completion tokens in this format; where a provider counts it beside
    them, its total tells. Counts that contradict each other are no usage.
    """
    if not raw:
        return None
    tokens_in, tokens_out = raw.get("prompt_tokens"), raw.get("completion_tokens")
    details = raw.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") or 0
    if not all(_is_count(one) for one in (tokens_in, tokens_out, cached)):
        return None
    if not tokens_in or cached > tokens_in:  # no request is empty
        return None
    total = raw.get("total_tokens")
    beside = total - tokens_in if _is_count(total) else 0
    return Usage(tokens_in=tokens_in, cached=cached, tokens_out=max(tokens_out or 0, beside))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS


def _tier(price: Mapping[str, Any], tokens_in: int) -> Mapping[str, Any]:
    reached = [one for one in price.get("tiers", []) if tokens_in > one["above"]]
    return max(reached, key=lambda one: int(one["above"]), default=price)


def _micro(micro_per_mtok_times_tokens: int) -> int:
    return -(-micro_per_mtok_times_tokens // MTOK)
