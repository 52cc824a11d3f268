"""The form of a plan: what an operator may choose, and what is refused with what to mend."""

import json
from typing import Any

import pytest

from engine.config import read_config
from engine.operator_form import PlanRefused, plan_schema, read_plan, settings_schema
from recipes.domains import DOMAINS

WORK = {
    "round": 2,
    "brief": "learn",
    "strata": {"sums": {"easy": {"mean": 0.5, "n": 4}, "hard": {"mean": 0.0, "n": 4}},
               "terms": {"three": {"mean": 0.0, "n": 4}}},
    "tasks": 100,
    "rooms": {"sums": None, "terms": 7},
    "labels": {"sums": "sums", "terms": "sums of terms"},
    "settings": {"replay_share": 0.25, "start": "base", "learning_rate": 1e-3, "epochs": 1.0},
    "failures": {},
    "earlier": [],
    "directives": [{"id": "dir-1", "text": "short answers"}],
    "steers": [{"id": "steer-1", "text": "harder"}],
}  # fmt: skip
BUILT_IN = {
    "families": {
        "sums": {"tasks": 93, "strata": {"easy": 31, "hard": 62}},
        "terms": {"tasks": 7, "strata": {"three": 7}},
    }
}


@pytest.fixture
def work() -> dict[str, Any]:
    return WORK | {"offered": settings_schema(read_config({}, DOMAINS["arith"]))}


def good(**changes: Any) -> dict[str, Any]:
    one = {
        "reasoning": "They fail.",
        "hypothesis": "Practice helps.",
        "families": [{"family": "sums", "tasks": 40, "mix": []}],
        "settings": dict(WORK["settings"]),
        "follows": [],
    }
    return one | changes


def test_a_plan_becomes_tasks_by_difficulty(work):
    mix = [{"difficulty": "hard", "share": 0.75}, {"difficulty": "easy", "share": 0.25}]
    families = [
        {"family": "sums", "tasks": 40, "mix": mix},
        {"family": "terms", "tasks": 5, "mix": []},
    ]
    found = read_plan(
        f"Here it is:\n```json\n{json.dumps(good(families=families))}\n```", work, BUILT_IN
    )
    assert found["families"] == {
        "sums": {"tasks": 40, "strata": {"hard": 30, "easy": 10}},
        "terms": {"tasks": 5, "strata": {"three": 5}},
    }


def test_a_family_that_the_built_in_plan_leaves_out_can_be_planned(work):
    built_in = {"families": BUILT_IN["families"] | {"terms": {"tasks": 0, "strata": {"three": 0}}}}
    families = [FAMILY | {"family": "terms", "tasks": 5}]
    found = read_plan(json.dumps(good(families=families)), work, built_in)
    assert found["families"]["terms"] == {"tasks": 5, "strata": {"three": 5}}


def test_words_are_clipped_and_fit_any_file(work):
    follows = [{"id": "steer-1", "how": "\ud800" + "z" * 999}]
    reply = json.dumps(good(hypothesis="x" * 9999, reasoning="y" * 9999, follows=follows))
    found = read_plan(reply, work, BUILT_IN)
    assert (len(found["hypothesis"]), len(found["reasoning"])) == (500, 2000)
    (cited,) = found["followed"]
    assert (cited["id"], cited["kind"], len(cited["how"])) == ("steer-1", "steer", 300)
    json.dumps(found, ensure_ascii=False).encode()


SETTINGS = WORK["settings"]
FAMILY = {"family": "sums", "tasks": 40, "mix": []}


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("I would rather not.", "no JSON object"),
        ("{" * 100_000, "no JSON object"),
        ('{"a": NaN}', "no JSON object"),
        ("[]", "no JSON object"),
        (good(student_model="gpt"), "the plan has no student_model"),
        (good(base_url="http://evil.example"), "the plan has no base_url"),
        ({"hypothesis": "x"}, "the plan lacks reasoning"),
        (good(hypothesis="  "), "hypothesis: say in a sentence"),
        (good(hypothesis=7), "hypothesis must be of type string"),
        (good(families=[]), "families needs at least 1"),
        (good(families=[FAMILY | {"family": "blind"}]), "is not one of: sums, terms"),
        (good(families=[FAMILY | {"family": ["sums"]}]), "is not one of: sums, terms"),
        (good(families=[FAMILY | {"tasks": 101}]), "tasks must be 1 to 100"),
        (good(families=[FAMILY | {"tasks": True}]), "tasks must be of type integer"),
        (good(families=[FAMILY | {"file": "/etc/passwd"}]), "has no file"),
        (good(families=[FAMILY, FAMILY]), "sums is planned twice"),
        (good(families=[FAMILY | {"family": "terms", "tasks": 8}]), "terms has 7 tasks left"),
        (
            good(families=[FAMILY | {"tasks": 100}, FAMILY | {"family": "terms", "tasks": 1}]),
            "the plan has 101 tasks",
        ),
        (
            good(families=[FAMILY | {"mix": [{"difficulty": "three", "share": 1}]}]),
            "sums has no difficulty three",
        ),
        (
            good(families=[FAMILY | {"mix": [{"difficulty": "easy", "share": 0}]}]),
            "shares of its mix are all 0",
        ),
        (
            good(families=[FAMILY | {"mix": [{"difficulty": "easy", "share": 5e-324}]}]),
            "shares of its mix are all 0",
        ),
        (good(settings=SETTINGS | {"learning_rate": 1.0}), "learning_rate must be 0.0002 to 0.003"),
        (good(settings=SETTINGS | {"epochs": 99}), "epochs must be 0.5 to 3.0"),
        (good(settings=SETTINGS | {"replay_share": 0.9}), "replay_share must be 0.2 to 0.3"),
        (good(settings=SETTINGS | {"start": "http://x"}), "is not one of: base, best"),
        (good(settings=SETTINGS | {"adapter": "x"}), "settings has no adapter"),
        (good(follows=[{"id": "steer-9", "how": "x"}]), "is not one of: dir-1, steer-1"),
    ],
)
def test_a_reply_that_does_not_fit_is_refused_with_what_to_mend(work, reply, says):
    text = reply if isinstance(reply, str) else json.dumps(reply)
    with pytest.raises(PlanRefused) as refused:
        read_plan(text, work, BUILT_IN)
    assert says in str(refused.value)


def test_a_family_of_which_nothing_is_known_is_not_offered(work):
    unknown = work | {"strata": WORK["strata"] | {"terms": {}}}
    families = [FAMILY | {"family": "terms", "tasks": 5}]
    with pytest.raises(PlanRefused, match="is not one of: sums"):
        read_plan(json.dumps(good(families=families)), unknown, BUILT_IN)


def test_where_nobody_has_said_anything_nothing_can_be_cited(work):
    quiet = work | {"directives": [], "steers": []}
    with pytest.raises(PlanRefused, match="nobody said"):
        read_plan(json.dumps(good(follows=[{"id": "x", "how": "x"}])), quiet, BUILT_IN)


def test_the_form_is_one_that_strict_providers_take(work):
    """Every object names all its fields as required and takes no others; no choice is empty."""

    def walk(schema: dict[str, Any]) -> None:
        assert schema.get("enum", ["x"])
        if schema["type"] == "object":
            assert schema["required"] == list(schema["properties"])
            assert schema["additionalProperties"] is False
        for part in [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]:
            walk(part)

    walk(plan_schema(work))
    walk(plan_schema(work | {"directives": [], "steers": []}))
