"""Held-out tasks in words: sums of money or time, stories with a distractor clause."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from engine.types import Family
from recipes.arith.numbers import countable, lengths, number, numbers_in, plural, task
from recipes.arith.numbers import unordered_key as either

MONEY = (
    "A book costs {a} and a lamp costs {b}. How many cents is that together?",
    "Add the two bills {a} and {b}. Give the total in cents.",
)
TIME = (
    "One film takes {a} and the next takes {b}. How many minutes is that together?",
    "A train rides for {a}, then for {b} more. Give its whole time in minutes.",
)
LEAST = 2  # of anything in a story, so that every plural is right
NAMES = ("Mia", "Omar", "Lena", "Ravi", "Sofia", "Kenji", "Ines", "Tomas", "Aisha", "Felix")
THINGS = (
    ("apples", "pears"),
    ("pens", "books"),
    ("stamps", "coins"),
    ("shells", "stones"),
    ("red beads", "blue beads"),
    ("stickers", "cards"),
)


@dataclass(kw_only=True, slots=True, frozen=True)
class Story:
    """A wording of `a + b` or `a - b`, with the number d in a clause that does not matter."""

    sign: str
    text: str


STORIES = (
    Story(
        sign="+",
        text="{name} has {a} {thing} and {d} {other}. {name} finds {b} more {thing}. "
        "How many {thing} does {name} have now?",
    ),
    Story(
        sign="+",
        text="{name} buys {a} {thing} on Monday and {b} {thing} on Tuesday, {d} days after moving "
        "house. How many {thing} does {name} buy?",
    ),
    Story(
        sign="+",
        text="A box for {d} {other} holds {a} {thing}. {name} puts in {b} {thing} more. "
        "How many {thing} are in the box?",
    ),
    Story(
        sign="-",
        text="{name} has {a} {thing} and {d} {other}. {name} gives away {b} {thing}. "
        "How many {thing} are left?",
    ),
    Story(
        sign="-",
        text="Of {a} {thing}, {name} sells {b} at a stall with {d} visitors. "
        "How many {thing} remain?",
    ),
    Story(
        sign="-",
        text="{name} needs {a} {thing} and has {b} {thing}, as well as {d} {other}. "
        "How many {thing} are missing?",
    ),
)


def build_money_time(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """Dollars with cents or hours with minutes, summed in the smaller unit."""
    money = rng.random() < 0.5
    unit, most = (100, params["dollars"]) if money else (60, params["hours"])
    # never a whole dollar or hour, so that both units always count
    a, b = (unit * rng.randrange(1, most + 1) + rng.randrange(1, unit) for _ in range(2))
    text = rng.choice(MONEY if money else TIME)
    show = _dollars if money else _hours
    carry = "with" if a % unit + b % unit >= unit else "without"
    name = "money" if money else "time"
    return task(
        text.format(a=show(a), b=show(b)),
        a + b,
        f"arith.{name}|{either(a, b)}",
        f"{name}, {carry} a carry",
        template=text.format(a="#", b="#"),
    )


def _dollars(cents: int) -> str:
    return f"${cents // 100}.{cents % 100:02d}"


def _hours(minutes: int) -> str:
    return f"{minutes // 60} h {minutes % 60} min"


def count_money_time(params: Mapping[str, Any]) -> int | None:
    """Unordered pairs of sums of money, with those of times."""
    money, time = 99 * params["dollars"], 59 * params["hours"]
    return countable(money * (money + 1) // 2 + time * (time + 1) // 2)


def build_story(rng: Random, params: Mapping[str, Any]) -> dict[str, Any]:
    """Two numbers that matter, one that does not; a difference is never zero or negative."""
    sizes, story = lengths(params), rng.choice(STORIES)
    a, b, d = (number(rng, rng.choice(sizes), LEAST) for _ in range(3))
    while story.sign == "-" and a == b:
        b = number(rng, rng.choice(sizes), LEAST)
    if story.sign == "-" and a < b:
        a, b = b, a
    thing, other = rng.choice(THINGS)
    name = rng.choice(NAMES)
    prompt = story.text.format(a=a, b=b, d=d, name=name, thing=thing, other=other)
    value, meaning = (a + b, either(a, b)) if story.sign == "+" else (a - b, f"{a},{b}")
    sort = "sum" if story.sign == "+" else "difference"
    stratum = f"{sort}, up to {plural(len(str(max(a, b))), 'digit')}"
    key = f"arith.story|{story.sign}|{meaning}"
    return task(prompt, value, key, stratum, template=_masked(story.text))


def _masked(text: str) -> str:
    return text.format(a="#", b="#", d="#", name="NAME", thing="THINGS", other="OTHERS")


def count_stories(params: Mapping[str, Any]) -> int | None:
    """Unordered pairs for sums, unequal ordered ones for differences; the rest does not matter."""
    n = numbers_in(lengths(params), LEAST)
    return countable(n * (n + 1) // 2 + n * (n - 1) // 2)


STORY_FAMILIES = (
    Family(
        id="arith.money_time",
        role="held_out",
        label="sums of money or time",
        revision=1,
        build=build_money_time,
        count_keys=count_money_time,
        params={"dollars": 99, "hours": 12},
    ),
    Family(
        id="arith.word_distractor",
        role="held_out",
        label="stories with a clause that does not matter",
        revision=1,
        build=build_story,
        count_keys=count_stories,
        params={"low": 1, "high": 3},
    ),
)
