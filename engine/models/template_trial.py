"""Tries a chat template before it may be used: in a child process, with little time and memory."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.children import ROOT, child_environment

CHILD = "engine.models.template_child"
WALL_SECONDS = 20.0  # for the child's start too, on a busy machine; it gets 2 s of the processor
ELSEWHERE = "take the model from elsewhere"
SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")


@dataclass(kw_only=True, slots=True, frozen=True)
class Trial:
    """What a template made of a conversation."""

    text: str
    with_answer: str  # the same conversation with the assistant's answer in it


def try_template(name: str, template: str, tokens: Mapping[str, Any]) -> Trial:
    """Render a short conversation as transformers does, in its sandbox, in a child.

    A ValueError says what the template did: too long, too large, not a template, or a conversation
    that Pawl has (a system and a user turn) refused or left out. `tokens` is tokenizer_config.json.
    """
    asked = json.dumps({"template": template, "tokens": special_tokens(tokens)})
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
