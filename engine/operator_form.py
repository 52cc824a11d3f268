"""The form of an operator's plan: the JSON schema that it is asked in, which every reply must fit.

A plan holds choices among what is offered, numbers within bounds, and clipped words for people. It
has no place for a model, an address, a file or a task.
"""

import json
from collections.abc import Mapping
from typing import Any

from engine.config import RunConfig
from engine.operator_view import clip
from engine.planner import divided

HYPOTHESIS_CHARS = 500
REASONING_CHARS = 2000
HOW_CHARS = 300
LEARNING_RATE = (0.2, 3.0)  # of the recipe's
EPOCHS = (0.5, 3.0)  # of the recipe's
LEAST_SHARES = 1e-6  # of a mix, added up; what is less cannot be told from 0
REPLAY = (0.2, 0.3)  # of the rows: less forgets, more leaves too little room for new rows

Schema = dict[str, Any]


class PlanRefused(Exception):
    """A reply that is no plan; the text says what does not fit, for the operator to mend."""


def settings_schema(config: RunConfig) -> Schema:
    """The settings that a plan may choose, within bounds that follow from the recipe."""
    rate, epochs, replay = config.lora.learning_rate, config.lora.epochs, config.replay_share
    return _object(
        {
            "replay_share": _number(min(REPLAY[0], replay), max(REPLAY[1], replay)),
            "start": {"type": "string", "enum": ["base", "best"]},
            "learning_rate": _number(*(rate * factor for factor in LEARNING_RATE)),
            "epochs": _number(*(epochs * factor for factor in EPOCHS)),
        }
    )


def plannable(work: Mapping[str, Any]) -> list[str]:
    """The families that a plan may name: with tasks left, and something known of them."""
    return [
        family for family, room in work["rooms"].items() if room != 0 and work["strata"].get(family)
    ]


def plan_schema(work: Mapping[str, Any]) -> Schema:
    """The whole form for one round: plannable families, difficulties, settings, what it follows."""
    families = plannable(work)
    difficulties = sorted({name for family in families for name in work["strata"][family]})
    ids = [said["id"] for said in work["directives"] + work["steers"]]
    part = _object({"difficulty": _choice(difficulties), "share": _number(0, 1)})
    family = _object(
        {
            "family": _choice(families),
            "tasks": {"type": "integer", "minimum": 1, "maximum": work["tasks"]},
            "mix": {"type": "array", "items": part},
        }
    )
    follows = _object({"id": _choice(ids), "how": {"type": "string"}})
    return _object(
        {
            "reasoning": {"type": "string"},
            "hypothesis": {"type": "string"},
            "families": {"type": "array", "items": family, "minItems": 1},
            "settings": work["offered"],
            "follows": {"type": "array", "items": follows},
        }
    )


def read_plan(text: str, work: Mapping[str, Any], built_in: Mapping[str, Any]) -> dict[str, Any]:
    """The plan in a reply; PlanRefused says what does not fit.

    A family without a mix of difficulties gets the built-in one.
    """
    reply = _json_in(text)
    check(reply, plan_schema(work), "the plan")
    families = _families(reply["families"], work, built_in)
    kinds = {said["id"]: kind for kind in ("directive", "steer") for said in work[f"{kind}s"]}
    cited = {one["id"]: clip(one["how"], HOW_CHARS) for one in reply["follows"]}
    unknown = sorted(set(cited) - set(kinds))
    if unknown:
        raise PlanRefused(f"follows: nobody said {clip(unknown[0], 80)}")
    hypothesis = clip(reply["hypothesis"], HYPOTHESIS_CHARS)
    if not hypothesis:
        raise PlanRefused("hypothesis: say in a sentence what the round tries")
    return {
        "families": families,
        "hypothesis": hypothesis,
        "reasoning": clip(reply["reasoning"], REASONING_CHARS),
        "settings": reply["settings"],
        "followed": [{"id": id_, "kind": kinds[id_], "how": how} for id_, how in cited.items()],
    }


def _families(
    asked: list[dict[str, Any]], work: Mapping[str, Any], built_in: Mapping[str, Any]
) -> dict[str, Any]:
    """Tasks by family and difficulty; families that the plan leaves out get none."""
    families: dict[str, Any] = {name: {"tasks": 0, "strata": {}} for name in built_in["families"]}
    for one in asked:
        name, count, room = one["family"], one["tasks"], work["rooms"][one["family"]]
        if families[name]["tasks"]:
            raise PlanRefused(f"{name} is planned twice")
        if room is not None and count > room:
            raise PlanRefused(f"{name} has {room} tasks left, not {count}")
        mix = {part["difficulty"]: part["share"] for part in one["mix"]}
        foreign = sorted(set(mix) - set(work["strata"][name]))
        if foreign:
            known = ", ".join(work["strata"][name])
            raise PlanRefused(f"{name} has no difficulty {foreign[0]}; it has {known}")
        if mix and sum(mix.values()) < LEAST_SHARES:
            raise PlanRefused(f"{name}: the shares of its mix are all 0")
        usual = built_in["families"][name]["strata"]
        if not any(usual.values()):
            usual = dict.fromkeys(work["strata"][name], 1)
        families[name] = {"tasks": count, "strata": divided(mix or usual, count)}
    total = sum(one["tasks"] for one in families.values())
    if total > work["tasks"]:
        raise PlanRefused(f"the plan has {total} tasks, and the round has room for {work['tasks']}")
    return families


def _json_in(text: str) -> Any:
    """The JSON object in a reply, with or without words around it."""
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        return json.loads(text[start:end], parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise PlanRefused(f"no JSON object could be read: {error}") from None


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number")


# The part of JSON Schema that the form is written in


def check(value: Any, schema: Schema, place: str) -> None:
    """PlanRefused, with the place, unless the value fits the schema."""
    if "enum" in schema:
        if value not in schema["enum"]:
            said, offered = clip(json.dumps(value), 80), ", ".join(schema["enum"])
            raise PlanRefused(f"{place}: {said} is not one of: {offered}")
        return
    if not _is_a(value, schema["type"]):
        raise PlanRefused(f"{place} must be of type {schema['type']}")
    if schema["type"] == "object":
        _check_fields(value, schema, place)
    elif schema["type"] == "array":
        if len(value) < schema.get("minItems", 0):
            raise PlanRefused(f"{place} needs at least {schema['minItems']}")
        for number, item in enumerate(value, 1):
            check(item, schema["items"], f"{place}, {number}")
    elif "minimum" in schema and not schema["minimum"] <= value <= schema["maximum"]:
        raise PlanRefused(f"{place} must be {schema['minimum']} to {schema['maximum']}")


def _check_fields(value: dict[str, Any], schema: Schema, place: str) -> None:
    fields = schema["properties"]
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise PlanRefused(f"{place} has no {clip(unknown[0], 80)}; it has {', '.join(fields)}")
    for name, field in fields.items():
        if name not in value:
            raise PlanRefused(f"{place} lacks {name}")
        check(value[name], field, name)


def _is_a(value: Any, kind: str) -> bool:
    kinds: dict[str, tuple[type, ...]] = {
        "object": (dict,),
        "array": (list,),
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
    }
    return isinstance(value, kinds[kind]) and not isinstance(value, bool)


def _object(properties: Schema) -> Schema:
    """An object with exactly these fields; providers with strict schemas demand all as required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _number(least: float, most: float) -> Schema:
    return {"type": "number", "minimum": _short(least), "maximum": _short(most)}


def _choice(words: list[str]) -> Schema:
    """One of some words; without any it stays a plain text, since an empty choice is no schema."""
    return {"type": "string", "enum": words} if words else {"type": "string"}


def _short(value: float) -> float:
    return float(f"{value:.6g}")
