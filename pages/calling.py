"""How a deployed version is called from outside: the `openai` client and curl, key from the environment."""

import json
import shlex

from nicegui import ui

from pages.parts import box, text
from pages.settings_parts import copyable

ASK = "17 + 25 = ?"


def snippets(url: str, model: str) -> None:
    """Both ways, ready to copy; `url` is how the visitor reaches this server."""
    with box():
        text(
            "It needs a key of this project in the environment variable ENVLOOP_API_KEY: see ",
            "pw-2",
        )
        ui.link("Keys", "/settings/keys")
    text("Python, with the openai package", "pw-label", "div")
    copyable(python(url, model))
    text("curl", "pw-label", "div")
    copyable(curl(url, model))


def python(url: str, model: str) -> str:
    """A program of a few lines that asks the version a question."""
    return "\n".join(
        [
            "import os",
            "from openai import OpenAI",
            "",
            f'client = OpenAI(base_url={_quoted(f"{url}/v1")}, api_key=os.environ["ENVLOOP_API_KEY"])',
            "answer = client.chat.completions.create(",
            f"    model={_quoted(model)},",
            f'    messages=[{{"role": "user", "content": {_quoted(ASK)}}}],',
            "    max_tokens=64,",
            ")",
            "print(answer.choices[0].message.content)",
        ]
    )


def curl(url: str, model: str) -> str:
    """The same request as curl sends it."""
    said = [{"role": "user", "content": ASK}]
    body = json.dumps({"model": model, "messages": said, "max_tokens": 64}, ensure_ascii=False)
    return (
        f"curl {shlex.quote(f'{url}/v1/chat/completions')} "
        '-H "Authorization: Bearer $ENVLOOP_API_KEY" -H "Content-Type: application/json" '
        f"-d {shlex.quote(body)}"
    )


def _quoted(value: str) -> str:
    """A string as Python and JSON both write it."""
    return json.dumps(value, ensure_ascii=False)
