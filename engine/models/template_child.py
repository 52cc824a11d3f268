"""Renders one foreign chat template within limits: `python -m engine.models.template_child`.

In: JSON with the template, the special tokens and conversations. Out: JSON with the text of the
first, or with an error in words. The limits are set before the template is read, so that it can
hang or fill nothing but this process. Templates run in Jinja's immutable sandbox, set up as
transformers sets it up.
"""

import json
import resource
import sys
from datetime import datetime
from typing import Any

CPU_SECONDS = 2
MEMORY_BYTES = 512 * 1024 * 1024
TEXT_CHARACTERS = 64 * 1024
NO_SYSTEM = "refuses or leaves out a system turn, with which every task is asked here"


def main() -> None:
    """Read, render, answer; whatever the template raises is told in words."""
    _limit()
    asked = json.load(sys.stdin)
    try:
        told = _told(asked["template"], asked["tokens"], asked["talks"])
    except MemoryError:
        told = {"error": f"needs more than {MEMORY_BYTES >> 20} MB"}
    except RecursionError:
        told = {"error": "nests too deep"}
    except Exception as error:  # noqa: BLE001  any exception of a foreign program
        told = {"error": f"fails: {type(error).__name__}: {str(error)[:200]}"}
    json.dump(told, sys.stdout)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def _told(
    template: str, tokens: dict[str, str], talks: list[list[dict[str, str]]]
) -> dict[str, Any]:
    compiled = _environment().from_string(template)
    tried = [_try(compiled, talk, tokens) for talk in talks]
    return next((one for one in tried if "error" in one), tried[0])


def _try(compiled: Any, talk: list[dict[str, str]], tokens: dict[str, str]) -> dict[str, Any]:
    """What becomes of a system turn, a question and an answer."""
    system, user = (turn["content"] for turn in talk[:2])
    text = _render(compiled, talk[:2], tokens, prompt=True)
    with_answer = _render(compiled, talk, tokens, prompt=False)
    if user not in text:
        return {"error": "leaves out what the user says"}
    if system not in text:
        return {"error": NO_SYSTEM}
    return {"text": text, "with_answer": with_answer}


def _render(compiled: Any, talk: list[dict[str, str]], tokens: dict[str, str], prompt: bool) -> str:
    parts: list[str] = []
    length = 0
    given = {"messages": talk, "tools": None, "documents": None, "add_generation_prompt": prompt}
    for part in compiled.generate(**tokens, **given):
        length += len(part)
        if length > TEXT_CHARACTERS:
            raise ValueError(f"more than {TEXT_CHARACTERS} characters for a talk of a few lines")
        parts.append(part)
    return "".join(parts)


def _environment() -> Any:
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The mark around what the assistant says; it changes no text."""

        tags = frozenset({"generation"})  # type: ignore[assignment]

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body).set_lineno(line)

    def refuse(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    known = {name: more[name] for name in ("separators", "sort_keys") if name in more}
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **known)


if __name__ == "__main__":
    main()
