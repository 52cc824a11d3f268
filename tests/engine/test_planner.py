"""The built-in planner follows what was measured."""

from engine.planner import make_plan


def figures(mean: float, n: int = 20) -> dict:
    return {"mean": mean, "n": n}


STRATA = {
    "sums": {"no carry": figures(1.0), "one carry": figures(0.2)},
    "products": {"1 x 1": figures(0.0)},
    "terms": {"three": figures(1.0)},
}
LABELS = {"sums": "sums with carries", "products": "products", "terms": "sums of terms"}


def plan(tasks: int = 200, rooms: dict | None = None) -> dict:
    return make_plan(STRATA, tasks, rooms or {}, LABELS, {"replay_share": 0.25})


def test_families_get_tasks_as_they_fail_and_mastered_ones_keep_a_little():
    counts = {family: one["tasks"] for family, one in plan()["families"].items()}
    assert sum(counts.values()) == 200
    assert counts["products"] > counts["sums"] > counts["terms"] > 0


def test_inside_a_family_the_failing_difficulty_gets_the_tasks():
    strata = plan()["families"]["sums"]["strata"]
    assert strata["one carry"] > 5 * strata["no carry"] > 0


def test_the_hypothesis_names_the_worst_family_first_with_its_failure():
    sentence = plan()["hypothesis"]
    assert sentence.startswith("Products (100% wrong), sums with carries (40% wrong) and ")
    assert "25% replay" in sentence


def test_what_the_plan_rests_on_is_in_it():
    assert {"family": "sums", "difficulty": "one carry", "right": 4, "n": 20} in plan()["because"]


def test_a_family_gets_no_more_tasks_than_there_are():
    assert plan(rooms={"products": 7})["families"]["products"]["tasks"] == 7


def test_when_nothing_fails_the_tasks_are_spread_evenly():
    strata = {"a": {"x": figures(1.0)}, "b": {"x": figures(1.0)}}
    families = make_plan(strata, 10, {}, {"a": "a", "b": "b"}, {})["families"]
    assert [one["tasks"] for one in families.values()] == [5, 5]
