"""What the documentation says of a training without a loop: its body, as JSON Schema and example."""

from collections.abc import Sequence
from typing import Any

from app.hand_jobs import LONGEST_REQUEST, MOST_TRIALS
from app.train_rows import LONGEST_FAMILY, MOST_ROWS, ROLES
from app.train_spec import GUARD, LARGEST_SEED, LONGEST_TAG, MOST_TAGS, MOST_TASKS, RECIPE
from recipes.domains import DOMAINS
from recipes.presets import preset_names

Schema = dict[str, Any]


def train_body(base_models: Sequence[str] = ()) -> Schema:
    """The body of a training; with `base_models` their names are told as well."""
    known = BASE | {"enum": list(base_models)} if base_models else BASE
    spec = SPEC | {"properties": SPEC["properties"] | {"base_model": known}}
    trial = _object(["spec"], name=NAME, spec=spec)
    trials = {"type": "array", "minItems": 1, "maxItems": MOST_TRIALS, "items": trial}
    body = _object(
        ["type"],
        type={"const": "train"},
        request_id=TEXT | {"maxLength": LONGEST_REQUEST},
        spec=spec,
        trials=trials,
        tags=TAGS,
        name=NAME,
    )
    return body | {"oneOf": [{"required": ["spec"]}, {"required": ["trials"]}]}


def _object(required: list[str], **properties: Any) -> Schema:
    closed = {"type": "object", "additionalProperties": False, "properties": properties}
    return closed | ({"required": required} if required else {})


def _number(kind: str = "integer", **limits: float) -> Schema:
    return {"type": kind, **limits}


def _measured(suites: list[str], **more: Any) -> Schema:
    return _object(
        ["suite"],
        suite={"enum": suites},
        n=_number(minimum=1, maximum=MOST_TASKS),
        max_tokens=_number(minimum=1, maximum=4096),
        **more,
    )


def _of_domain(name: str) -> Schema:
    ids = [family.id for family in DOMAINS[name].families if family.role == "train"]
    family = _object(["id"], id={"enum": ids}) | {"description": "and its parameters, by name"}
    return _measured([name], families={"type": "array", "minItems": 1, "items": family})


TEXT: Schema = {"type": "string", "minLength": 1, "pattern": r"\S"}
NAME: Schema = TEXT | {"maxLength": 64}
TAGS: Schema = {
    "type": "object",
    "maxProperties": MOST_TAGS,
    "description": "labels, of which rsi_run and rsi_round put the job beside a run's",
    "properties": {
        "rsi_round": {"anyOf": [{"type": "string", "pattern": "^[0-9]{1,9}$"}, _number(minimum=0)]}
    },
    "additionalProperties": {"anyOf": [TEXT | {"maxLength": LONGEST_TAG}, _number()]},
}
MESSAGE = _object(["role", "content"], role={"enum": list(ROLES)}, content=TEXT)
ASKED = _object(["role", "content"], role={"enum": ["system", "user"]}, content=TEXT)
ROW: Schema = _object(
    ["messages", "completion"],
    messages={"type": "array", "minItems": 1, "items": ASKED},
    completion=TEXT,
    ends={"type": "boolean", "description": "false: the answer was cut off"},
    family=TEXT | {"maxLength": LONGEST_FAMILY},
)
CHAT: Schema = _object(
    ["messages"],
    messages={
        "type": "array",
        "minItems": 2,
        "description": "the last message is the assistant's: loss falls on it alone",
        "items": MESSAGE,
    },
    ends={"type": "boolean"},
    family=TEXT | {"maxLength": LONGEST_FAMILY},
)
BASE: Schema = {"type": "string", "description": "a base model, by its registry name"}
SPEC: Schema = _object(
    ["base_model", "data"],
    base_model=BASE,
    recipe={"enum": [RECIPE, *preset_names()]},
    data=_object(
        ["rows"],
        rows={
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_ROWS,
            "items": {"anyOf": [ROW, CHAT]},
        },
    ),
    lora=_object(
        [],
        rank=_number(minimum=1, maximum=256),
        alpha=_number(minimum=1, maximum=1024),
        dropout=_number("number", minimum=0, exclusiveMaximum=1),
    ),
    training=_object(
        [],
        epochs=_number("number", exclusiveMinimum=0, maximum=100),
        learning_rate=_number("number", exclusiveMinimum=0, maximum=1),
        batch_size=_number(minimum=1, maximum=1024),
        max_length=_number(minimum=16, maximum=131_072),
        warmup_steps=_number(minimum=0, maximum=100_000),
        checkpoint_seconds=_number("number", minimum=0, maximum=3600),
        seed=_number(minimum=0, maximum=LARGEST_SEED),
    ),
    evaluate={"anyOf": [*(_of_domain(name) for name in DOMAINS), _measured([GUARD])]},
    tags=TAGS,
    name=NAME,
)
