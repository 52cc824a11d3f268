"""What a run may spend and how much it does: the three caps in both spellings, and the counts."""

from collections.abc import Mapping
from typing import Any

from app.errors import InvalidRequest

CAPS = {  # a cap's documented name -> its other spelling
    "max_model_cost_usd": "model_usd_cap",
    "max_cost_usd": "usd_cap",
    "max_model_requests": "model_request_cap",
}
AMOUNTS = ("max_model_cost_usd", "max_cost_usd")
COUNTS = frozenset(
    {
        "request_cap",
        "student_request_cap",
        "diag_per_family",
        "dev_n",
        "collect_tasks",
        "collect_k",
        "admission_n",
        "blind_n",
        "max_rows_per_family",
        "dev_use_cap",
        "eval_limit",
        "calib_n",
    }
)
MOST = 10**12  # of anything: more is a slip, and would not fit the ledger's micro-dollars
LEAST = 1e-6  # of an amount: a micro-dollar
_AMOUNT = {"type": "number", "minimum": LEAST, "maximum": MOST}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MOST}
CAPS_SCHEMA: dict[str, Any] = {
    word: _AMOUNT if name in AMOUNTS else _COUNT
    for name, alias in CAPS.items()
    for word in (name, alias)
}
ONE_SPELLING = [{"not": {"required": [name, alias]}} for name, alias in CAPS.items()]
LIMITS_SCHEMA: dict[str, Any] = {  # for documentation; what is refused is decided below
    "properties": {**CAPS_SCHEMA, **dict.fromkeys(sorted(COUNTS), _COUNT)},
    "anyOf": [{"required": ["max_model_cost_usd"]}, {"required": ["model_usd_cap"]}],
    "allOf": ONE_SPELLING,
    "additionalProperties": False,
    "examples": [{"max_model_cost_usd": 5}],
}


def checked_limits(limits: object) -> tuple[dict[str, float | int], dict[str, int]]:
    """The caps under their documented names, and the counts; InvalidRequest names a bad one."""
    if not isinstance(limits, Mapping):
        raise InvalidRequest('limits: give an object such as {"max_model_cost_usd": 5}')
    aliases = {alias: name for name, alias in CAPS.items()}
    caps: dict[str, float | int] = {}
    counts: dict[str, int] = {}
    for key, value in limits.items():
        name = aliases.get(key, key)
        if name in CAPS:
            number = _number(key, value, must_be_whole=name not in AMOUNTS)
            if caps.setdefault(name, number) != number:
                raise InvalidRequest(f"limits: {name} and {CAPS[name]} differ; give one of them")
        elif name in COUNTS:
            counts[name] = int(_number(key, value, must_be_whole=True))
        else:
            known = ", ".join([*CAPS, *sorted(COUNTS)])
            raise InvalidRequest(f"limits.{key}: not a limit; known are {known}")
    return caps, counts


def checked_caps(limits: object) -> dict[str, float | int]:
    """Like `checked_limits` where the caps alone may be given."""
    caps, counts = checked_limits(limits)
    if counts:
        raise InvalidRequest(f"limits.{min(counts)}: only the caps can be changed: {list(CAPS)}")
    return caps


def limits_shape(caps: Mapping[str, Any]) -> dict[str, float | int | None]:
    """The caps in both spellings, amounts as floats, None where there is none."""
    shown: dict[str, Any] = {name: caps.get(name) for name in CAPS}
    shown |= {name: float(shown[name]) for name in AMOUNTS if shown[name] is not None}
    return shown | {CAPS[name]: value for name, value in shown.items()}


def whole(value: object) -> object:
    """JSON has no integers of its own: 3.0 is one, and becomes 3; everything else stays."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(key: str, value: object, *, must_be_whole: bool) -> float | int:
    value = whole(value) if must_be_whole else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"limits.{key}: give a number, not {type(value).__name__}")
    if not 0 < value <= MOST:  # also refuses what is not a number
        raise InvalidRequest(f"limits.{key}: give a positive number of at most {MOST:,}")
    if must_be_whole and not isinstance(value, int):
        raise InvalidRequest(f"limits.{key}: give a whole number")
    if not must_be_whole and value < LEAST:
        raise InvalidRequest(f"limits.{key}: give at least {LEAST:f} (a micro-dollar)")
    return value
