"""One answer in pieces says what a batch would have said, and stops where it is told to."""

from typing import Any

import pytest

from engine.errors import Interrupted, RequestRefused
from engine.models.complete import Wanted, complete
from engine.models.generate import generate
from engine.models.weights import Loaded
from engine.serving.bodies import CHAT, COMPLETIONS, read_request
from engine.types import Ask
from tests.worker.samples import never

CAT = [{"role": "user", "content": "Answer with two cats, as emoji: 🐱🐱"}]
HI = [{"role": "user", "content": "Hi"}]


def pieces(loaded: Loaded, **wanted: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    complete(loaded, Wanted(**wanted), found.append, never, lambda count: None)
    return found


def text(found: list[dict[str, Any]]) -> str:
    return "".join(piece["text"] for piece in found)


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "drawn"])
def test_pieces_are_the_text_that_a_batch_gives(loaded: Loaded, temperature: float) -> None:
    # The seed's numbers lie well inside the share of a token; its text ends in half a character.
    more = {"messages": CAT, "max_tokens": 24, "temperature": temperature, "seed": 21}
    answers: list[Any] = []
    generate(loaded, [Ask(key="a", **more)], answers.extend, never, lambda count: None)
    found = pieces(loaded, **more)
    assert text(found) == answers[0].text and found[-1]["tokens_out"] == answers[0].tokens_out
    assert (found[0]["tokens_in"], found[-1]["finish"]) == (answers[0].tokens_in, answers[0].finish)
    assert all("\ufffd" not in piece["text"] for piece in found[:-1])


def test_a_stop_word_ends_the_answer_and_is_not_in_it(loaded: Loaded) -> None:
    whole = text(pieces(loaded, messages=HI, max_tokens=12, temperature=0.0))
    word = whole[4:9]  # across tokens, wherever they part
    found = pieces(loaded, messages=HI, max_tokens=12, temperature=0.0, stop=(word,))
    assert text(found) == whole[: whole.index(word)] and found[-1]["finish"] == "stop"
    spared = pieces(loaded, messages=HI, max_tokens=12, temperature=0.0, stop=(f"{word}!?",))
    assert text(spared) == whole


def test_a_narrow_top_p_draws_what_is_likeliest(loaded: Loaded) -> None:
    greedy = text(pieces(loaded, messages=HI, max_tokens=6, temperature=0.0))
    assert text(pieces(loaded, messages=HI, max_tokens=6, top_p=1e-6, seed=9)) == greedy


def test_what_does_not_fit_the_context_is_refused_before_anything_is_written(
    loaded: Loaded,
) -> None:
    with pytest.raises(RequestRefused, match=f"holds {loaded.context} tokens") as refused:
        pieces(loaded, messages=HI, max_tokens=loaded.context)
    assert refused.value.code == "context_length_exceeded"
    with pytest.raises(RequestRefused, match="token ids are from 0 to"):
        pieces(loaded, prompt=[10**6], max_tokens=1)


def test_a_stop_is_heard_between_two_tokens(loaded: Loaded) -> None:
    found: list[dict[str, Any]] = []
    wanted = Wanted(messages=HI, max_tokens=500, temperature=0.0)
    with pytest.raises(Interrupted):
        complete(loaded, wanted, found.append, lambda: len(found) > 3, lambda count: None)
    assert len(found) == 4


@pytest.mark.parametrize(
    ("route", "more", "told"),
    [
        (CHAT, {"n": 2}, "n: only 1 can be done here"),
        (CHAT, {"tools": [{"type": "function"}]}, "tools: only"),
        (CHAT, {"response_format": {"type": "json_object"}}, "response_format: only"),
        (CHAT, {"presence_penalty": 0.5}, "presence_penalty: only 0"),
        (CHAT, {"reasoning_effort": "high"}, "reasoning_effort: this server does not know it"),
        (CHAT, {"chat_template": "{{ x }}"}, "chat_template: a version is asked through its own"),
        (CHAT, {"temperature": True}, "temperature: give a number from 0 to 2"),
        (CHAT, {"top_logprobs": 2}, "top_logprobs: it needs logprobs: true"),
        (CHAT, {"stop": [""]}, "stop: give up to"),
        (CHAT, {"messages": []}, "messages: give a list"),
        (
            CHAT,
            {"messages": [{"role": "tool", "content": "x"}]},
            r"messages\[0\].role: give one of",
        ),
        (CHAT, {"messages": [{"role": ["user"], "content": "x"}]}, r"messages\[0\].role: give"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "content"),
        (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs: .* from 0 to 20"),
        (COMPLETIONS, {"prompt": ["a", "b"]}, "prompt: give one text"),
        (COMPLETIONS, {"echo": True}, "echo: only False"),
    ],
)
def test_what_would_change_an_answer_and_cannot_be_done_is_refused_by_name(
    route: str, more: dict[str, Any], told: str
) -> None:
    usual = {"messages": HI} if route == CHAT else {"prompt": "Hi"}
    with pytest.raises(RequestRefused, match=told):
        read_request(route, usual | more)


def test_what_changes_nothing_is_passed_over() -> None:
    harmless = {
        "user": "ann",
        "metadata": {},
        "store": False,
        "n": 1,
        "tools": None,
        "logit_bias": {},
    }
    parts = [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]
    body = harmless | {"messages": [{"role": "developer", "content": parts}], "seed": 4}
    wanted = Wanted.from_plain(read_request(CHAT, body))
    assert wanted == Wanted(messages=[{"role": "system", "content": "Hi"}], seed=4)


def test_the_most_that_may_be_asked_for_is_given() -> None:
    most = {"messages": HI, "logprobs": True, "top_logprobs": 20, "seed": 2**63 - 1}
    assert read_request(CHAT, most)["logprobs"] == 20
    assert read_request(COMPLETIONS, {"prompt": "Hi", "logprobs": 20})["logprobs"] == 20


def test_a_temperature_next_to_nothing_takes_the_likeliest_tokens(loaded: Loaded) -> None:
    greedy = text(pieces(loaded, messages=HI, max_tokens=6, temperature=0.0))
    wanted = read_request(CHAT, {"messages": HI, "max_tokens": 6, "temperature": 1e-40, "seed": 9})
    assert text(pieces(loaded, **wanted)) == greedy
