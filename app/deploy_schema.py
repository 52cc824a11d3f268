"""What the documentation says of a deployment: its body, as JSON Schema and example."""

from typing import Any

Schema = dict[str, Any]


def _text(longest: int) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": longest, "pattern": r"\S"}


def _object(required: list[str], **properties: Any) -> Schema:
    closed = {"type": "object", "additionalProperties": False, "properties": properties}
    return closed | ({"required": required} if required else {})


SPEC = _object(
    [],
    name=_text(200),
    serving_profile=_text(200),
    version=_text(200) | {"description": "RUN/candidate-1, RUN/base, or a checkpoint"},
    model=_text(200) | {"description": "a base model"},
    inputs=_object(["checkpoint"], checkpoint=_text(400)),
) | {"oneOf": [{"required": [way]} for way in ("version", "model", "inputs")]}

DEPLOYMENT = _object(
    ["type", "spec"], type={"const": "inference"}, request_id=_text(128), spec=SPEC
)

EXAMPLE = {
    "type": "inference",
    "request_id": "rq-1",
    "spec": {"name": "sums", "version": "sums-1/candidate-1"},
}
