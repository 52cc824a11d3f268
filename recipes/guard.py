"""The guard: a fixed suite of simple general items that training on a domain must not spoil.

Each table pairs what fills a question with its answer; a tuple holds spellings of one answer.
What a reply must not name is every other answer of the table that the question itself does not
name, so that naming everything scores nothing.
"""

import re
from collections.abc import Mapping

from engine.types import Suite, Task
from recipes.verifiers.guard_word import GUARD_WORD

Gold = str | int | tuple[str, ...]
Table = Mapping[str, Gold]

CAPITALS: Table = {
    "France": "Paris",
    "Japan": "Tokyo",
    "Kenya": "Nairobi",
    "Egypt": "Cairo",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Cuba": "Havana",
    "Peru": "Lima",
    "Norway": "Oslo",
    "Greece": "Athens",
    "Austria": "Vienna",
    "Poland": "Warsaw",
    "Canada": "Ottawa",
    "Thailand": "Bangkok",
}
COUNTRIES: Table = {
    "Berlin": "Germany",
    "Lisbon": "Portugal",
    "Mumbai": "India",
    "Dublin": "Ireland",
    "Shanghai": "China",
    "Stockholm": "Sweden",
    "Istanbul": "Turkey",
    "Chicago": ("United States", "USA", "America"),
}
LANGUAGES: Table = {
    "Brazil": "Portuguese",
    "Mexico": "Spanish",
    "Iran": ("Persian", "Farsi"),
    "Israel": "Hebrew",
    "Hungary": "Hungarian",
    "Finland": "Finnish",
    "Germany": "German",
    "Australia": "English",
}
PLURALS: Table = {
    "child": "children",
    "mouse": "mice",
    "foot": "feet",
    "tooth": "teeth",
    "man": "men",
    "goose": "geese",
    "knife": "knives",
    "city": "cities",
}
OTHER_FACTS: Table = {
    "What is the largest ocean on Earth?": "Pacific",
    "What is the chemical symbol for water?": "H2O",
    "Who wrote Hamlet?": "Shakespeare",
    "What do bees make?": "honey",
    "Which organ pumps blood through the body?": "heart",
    "Who painted the Mona Lisa?": ("Leonardo", "da Vinci"),
    "What is the first month of the year?": "January",
    "Which gas do people need to breathe?": "oxygen",
    "Which season follows winter?": "spring",
    "What is the currency of Japan?": "yen",
    "Which planet is known as the red planet?": "Mars",
    "What is frozen water called?": "ice",
    "Which animal says meow?": "cat",
}
OPPOSITES: Table = {
    "hot": "cold",
    "big": ("small", "little"),
    "early": "late",
    "full": "empty",
    "up": "down",
    "day": "night",
    "fast": "slow",
    "young": "old",
    "happy": ("sad", "unhappy"),
    "rich": "poor",
    "strong": "weak",
    "light": ("dark", "heavy", "darkness"),
    "open": ("closed", "close", "shut"),
    "wet": "dry",
    "high": "low",
    "left": "right",
    "inside": "outside",
    "begin": ("end", "finish", "stop"),
    "love": "hate",
    "win": "lose",
    "hard": ("soft", "easy"),
    "clean": "dirty",
    "before": "after",
    "true": "false",
    "front": ("back", "rear"),
    "buy": "sell",
}
COPIES = {
    "The secret word is {}. What is the secret word?": ("river", "window", "garden", "button"),
    "The box is {}. What color is the box?": ("green", "yellow", "purple", "orange"),
    "Tom lives in {}. Where does Tom live?": ("Boston", "Geneva", "Sydney", "Prague"),
    "We meet on {}. On which day do we meet?": ("Friday", "Monday", "Sunday", "Tuesday"),
    "My dog is named {}. What is the name of my dog?": ("Rex", "Bella", "Max", "Luna"),
    "Anna plays the {}. What does Anna play?": ("piano", "violin", "guitar", "drums"),
}
# fmt: off
NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen",
)
# fmt: on
COUNTS: Table = {
    "How many legs does a cat have?": 4,
    "How many days are there in a week?": 7,
    "How many months are there in a year?": 12,
    "How many fingers are on one hand?": 5,
    "How many sides does a triangle have?": 3,
    "How many corners does a square have?": 4,
    "How many legs does a spider have?": 8,
    "How many wheels does a bicycle have?": 2,
    "How many eyes do most people have?": 2,
    "How many seasons are there in a year?": 4,
    "How many planets are in the solar system?": 8,
    "How many colors are in this list: red, blue, green?": 3,
    "How many names are in this list: Ann, Bob?": 2,
    "How many arms does an octopus have?": 8,
    "How many ears does a rabbit have?": 2,
}
SEQUENCES: Table = {
    "1, 2, 3, 4": 5,
    "3, 4, 5": 6,
    "7, 8, 9": 10,
    "5, 6, 7, 8": 9,
    "2, 4, 6": 8,
    "6, 5, 4": 3,
    "9, 10, 11": 12,
    "0, 1, 2": 3,
    "4, 5, 6": 7,
    "8, 9, 10": 11,
}
STATEMENTS: Table = {
    "Snow is cold": "yes",
    "Dogs are animals": "yes",
    "Birds have wings": "yes",
    "People drink water": "yes",
    "Paris is a city": "yes",
    "Grass can be green": "yes",
    "Snow is hot": "no",
    "Chairs are animals": "no",
    "Dogs have wings": "no",
    "People eat stones": "no",
    "Paris is a fruit": "no",
    "Fire is made of ice": "no",
}
QUESTIONS: Table = {
    "Is the sun hot?": "yes",
    "Can a fish swim?": "yes",
    "Is gold a metal?": "yes",
    "Do cows eat grass?": "yes",
    "Is a rose a flower?": "yes",
    "Is milk a drink?": "yes",
    "Is ice hot?": "no",
    "Can a stone swim?": "no",
    "Is bread a metal?": "no",
    "Do cows eat cars?": "no",
    "Is a rose an insect?": "no",
    "Is a table a drink?": "no",
}


def guard_tasks() -> tuple[Task, ...]:
    """All items in a fixed order, kind by kind."""
    copies: Table = {text.format(word): word for text, words in COPIES.items() for word in words}
    return (
        *_tasks("facts", "What is the capital of {}?", CAPITALS),
        *_tasks("facts", "In which country is {}?", COUNTRIES),
        *_tasks("facts", "Which language do most people speak in {}?", LANGUAGES),
        *_tasks("facts", "What is the plural of {}?", PLURALS),
        *_tasks("facts", "{}", OTHER_FACTS),
        *_tasks("opposites", "What is the opposite of {}?", OPPOSITES),
        *_tasks("copying", "{}", copies),
        *_tasks("counting", "{}", COUNTS),
        *_tasks("counting", "What is the next number: {}?", SEQUENCES),
        *_tasks("yes or no", "{}. Yes or no?", STATEMENTS),
        *_tasks("yes or no", "{} Answer yes or no.", QUESTIONS),
    )


def _tasks(kind: str, text: str, table: Table) -> list[Task]:
    family = f"guard.{kind.replace(' ', '_')}"
    return [
        Task(
            family=family,
            version="1",
            prompt=text.format(blank),
            checker={
                "kind": "word",
                "gold": list(_spellings(gold)),
                "wrong": _wrong(text.format(blank), gold, table),
            },
            worked=_spellings(gold)[0],
            canonical_key=f"{family}|{blank}",
            template_id=text if text != "{}" else blank,
            stratum=kind,
        )
        for blank, gold in table.items()
    ]


def _wrong(prompt: str, gold: Gold, table: Table) -> list[str]:
    """What a reply must not name: the table's other answers, or any other small number."""
    answers = range(len(NUMBERS)) if isinstance(gold, int) else table.values()
    wrong = {word for answer in answers for word in _spellings(answer)} - {*_spellings(gold)}
    if gold in ("yes", "no"):  # both stand in the question
        return sorted(wrong)
    asked = set(re.findall(r"\w+", prompt.lower()))
    return sorted(word for word in wrong if asked.isdisjoint(word.lower().split()))


def _spellings(gold: Gold) -> tuple[str, ...]:
    if isinstance(gold, int):
        return str(gold), NUMBERS[gold]
    return (gold,) if isinstance(gold, str) else gold


GUARD = Suite(
    name="guard",
    tasks=guard_tasks(),
    verifier=GUARD_WORD,
    system="Answer in one short sentence.",
    max_tokens=20,
)
