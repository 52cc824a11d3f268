"""Splits as a run sees them: stable seeds, one split per task, fresh draws, refused plans."""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from engine.errors import DrawExhausted
from engine.splits import (
    BUCKETS,
    WALK_FLOOR,
    WALK_PER_TASK,
    bucket,
    check_room,
    draw,
    item_seed,
    room_for,
    split_of,
)
from engine.types import Family

SECRET = b"a run's secret"
SEALED = b"another secret"


def build_toy(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    n = rng.randrange(params["most"])
    return {
        "prompt": f"What comes after {n}?",
        "checker": {"kind": "integer", "value": str(n + 1)},
        "worked": str(n + 1),
        "canonical_key": f"toy.next|{n}",
        "template_id": "What comes after #?",
        "stratum": "even" if n % 2 == 0 else "odd",
    }


def toy(most: int, role: str = "train") -> Family:
    return Family(
        id="toy.next",
        role=role,
        label="next numbers",
        revision=1,
        build=build_toy,
        count_keys=lambda params: params["most"] if params["most"] <= 10_000_000 else None,
        params={"most": most},
    )


@pytest.mark.parametrize(
    ("split", "index", "seed"),
    [
        ("train", 0, 8130390715503863120),
        ("train", 1, 2605236854970301665),
        ("blind", 0, 2396665150991718038),
    ],
)
def test_item_seeds_are_the_published_vectors(split: str, index: int, seed: int) -> None:
    assert item_seed(b"test-secret", split, "arith.add_carry", "1", index) == seed


def test_an_id_with_a_bar_is_refused() -> None:
    with pytest.raises(ValueError, match="rename it"):
        item_seed(SECRET, "train", "arith|add", "1", 0)


def test_the_buckets_cover_0_to_99_once_with_the_stated_shares() -> None:
    numbers = [number for span in BUCKETS.values() for number in span]
    assert sorted(numbers) == list(range(100))
    seen = Counter(split_of(SECRET, f"key {n}") for n in range(20_000))
    for split, span in BUCKETS.items():
        assert seen[split] / 20_000 == pytest.approx(len(span) / 100, abs=0.01)


def test_another_run_sorts_the_same_keys_into_other_buckets() -> None:
    same = sum(bucket(SECRET, f"key {n}") == bucket(SEALED, f"key {n}") for n in range(5_000))
    assert same < 100  # 1 % by chance


def test_every_task_of_a_small_family_is_drawn_in_its_own_split_alone() -> None:
    owner: dict[str, str] = {}
    for split in BUCKETS:
        drawn, _ = draw(SECRET, SECRET, split, toy(400), 0, room_for(split, toy(400)) or 0)
        for one in drawn:
            assert owner.setdefault(one.task.canonical_key, split) == split
            assert split_of(SECRET, one.task.canonical_key) == split
    assert len(owner) == 200


def test_the_next_index_goes_on_where_the_last_draw_ended() -> None:
    family = toy(10**9)
    first, middle = draw(SECRET, SECRET, "dev", family, 0, 30)
    second, end = draw(SECRET, SECRET, "dev", family, middle, 30)
    together, same_end = draw(SECRET, SECRET, "dev", family, 0, 60)
    assert [*first, *second] == together
    assert end == same_end == together[-1].index + 1


def test_keys_already_used_are_not_drawn_again() -> None:
    family = toy(1_000)
    first, index = draw(SECRET, SECRET, "train", family, 0, 200)
    used = {one.task.canonical_key for one in first}
    assert len(used) == 200
    second, _ = draw(SECRET, SECRET, "train", family, index, 200, seen=used)
    assert used.isdisjoint(one.task.canonical_key for one in second)


def test_only_wanted_tasks_are_drawn() -> None:
    drawn, _ = draw(
        SECRET, SECRET, "train", toy(1_000), 0, 50, wanted=lambda task: task.stratum == "odd"
    )
    assert {one.task.stratum for one in drawn} == {"odd"}


def test_sealed_tasks_come_from_a_seed_secret_of_their_own_but_keep_the_runs_buckets() -> None:
    family = toy(10**9)
    sealed, _ = draw(SECRET, SEALED, "blind", family, 0, 100)
    guessed, _ = draw(SECRET, SECRET, "blind", family, 0, 100)
    assert {one.task.prompt for one in sealed}.isdisjoint(one.task.prompt for one in guessed)
    assert {split_of(SECRET, one.task.canonical_key) for one in sealed} == {"blind"}


def test_a_draw_that_finds_too_little_says_how_much_there_is() -> None:
    with pytest.raises(DrawExhausted) as caught:
        draw(SECRET, SECRET, "calib", toy(40), 7, 20)
    text = str(caught.value)
    assert "of 20 fresh calib tasks" in text
    assert f"7 to {7 + WALK_FLOOR + WALK_PER_TASK * 20 - 1:,}" in text
    assert "there are 40 different tasks" in text
    assert "widen most" in text


def test_a_plan_may_use_half_of_the_keys_of_its_split() -> None:
    assert room_for("train", toy(4_095)) == 1_228
    assert room_for("blind", toy(4_095)) == 307
    assert room_for("held_out", toy(4_095, role="held_out")) == 2_047
    assert room_for("train", toy(10**9)) is None
    check_room("blind", toy(4_095), 307)
    check_room("blind", toy(10**9), 10**6)
    with pytest.raises(DrawExhausted, match=r"blind may use 307, and the plan needs 308"):
        check_room("blind", toy(4_095), 308)


def test_held_out_families_have_one_split_and_need_no_bucket() -> None:
    family = toy(1_000, role="held_out")
    drawn, index = draw(SECRET, SEALED, "held_out", family, 0, 20)
    assert index < 30  # all but repeats are taken
    assert len({split_of(SECRET, one.task.canonical_key) for one in drawn}) > 1
    for split in BUCKETS:
        with pytest.raises(ValueError, match="held out"):
            draw(SECRET, SECRET, split, family, 0, 1)
    with pytest.raises(ValueError, match="no split held_out"):
        draw(SECRET, SECRET, "held_out", toy(1_000), 0, 1)
