"""Tries a chat template before it may be used: in a child process, with little time and memory."""

import json
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.children import ROOT, child_environment

CHILD = "engine.models.template_child"
WALL_SECONDS = 20.0  # for the child's start too, on a busy machine; it gets 2 s of the processor
ELSEWHERE = "take the model from elsewhere"
ROLES = ("system", "user", "assistant")
LENGTHS = (6, 60, 600)  # words and numbers of a turn, each
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")

Talk = list[dict[str, str]]  # turns with role and content


@dataclass(kw_only=True, slots=True, frozen=True)
class Trial:
    """What a template made of a conversation."""

    text: str
    with_answer: str  # the same conversation with the assistant's answer in it


def draw_talks() -> list[Talk]:
    """Conversations to try templates with: a system turn, a question, an answer.

    Of several lengths and drawn anew each time, so that no template can know that it is tried.
    """
    draw = random.SystemRandom()
    return [[_turn(draw, role, words) for role in ROLES] for words in LENGTHS]


def _turn(draw: random.Random, role: str, words: int) -> dict[str, str]:
    made = ("".join(draw.choices(LETTERS, k=draw.randint(2, 9))) for _ in range(words))
    text = " ".join(f"{word} {draw.randrange(10**6)}" for word in made)
    return {"role": role, "content": text}


def try_template(
    name: str, template: str, tokens: Mapping[str, Any], talks: Sequence[Talk]
) -> Trial:
    """Render conversations as transformers does, in its sandbox, in a child; the first is told.

    A ValueError says what the template did: too long, too large, not a template, or a conversation
    that Pawl has (a system and a user turn) refused or left out. `tokens` is tokenizer_config.json.
    """
    asked = json.dumps(
        {"template": template, "tokens": special_tokens(tokens), "talks": list(talks)}
    )
    try:
        done = subprocess.run(
            [sys.executable, "-m", CHILD],
            input=asked.encode(),
            capture_output=True,
            timeout=WALL_SECONDS,
            cwd=ROOT,
            env=child_environment(),
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{name}: the chat template does not end: {ELSEWHERE}") from None
    told = _read(done.stdout)
    if told is None:
        how = (
            "it takes too long" if done.returncode < 0 else f"its process ended ({done.returncode})"
        )
        raise ValueError(f"{name}: the chat template cannot be rendered, {how}: {ELSEWHERE}")
    if "error" in told:
        raise ValueError(f"{name}: the chat template {told['error']}: {ELSEWHERE}")
    return Trial(text=told["text"], with_answer=told["with_answer"])


def special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """The tokens that templates may name, as text."""
    found = {name: config.get(name) for name in SPECIAL}
    return {
        name: str(token.get("content", "") if isinstance(token, Mapping) else token)
        for name, token in found.items()
        if token
    }


def _read(output: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(output)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
