"""What the rollout benchmark asks: sums for answers, and messages that are sorted by label."""

from random import Random

from engine.types import Ask, LabelAsk, Message
from recipes.domains import DOMAINS

PROMPTS, QUICK_PROMPTS = 64, 24
NEW_TOKENS, QUICK_NEW_TOKENS = 48, 24
ITEMS, QUICK_ITEMS = 200, 32
PARSED_TOKENS = 8  # of an answer that is parsed for its label
SEED = 20

LABELS = ("money", "parcel", "account", "other")
SYSTEM = (
    "You sort messages of a shop's customers. "
    "Answer with one word: money, parcel, account or other."
)
# With the system prompt these are the 150 tokens that all messages share.
EXAMPLES = (
    ("I was charged two times for order 77.", "money"),
    ("Order 52 has not come.", "parcel"),
    ("I forgot my password.", "account"),
    ("When do you open?", "other"),
    ("Refund order 31, please.", "money"),
    ("Order 90 came broken.", "parcel"),
)
WORDINGS = (
    "I paid for order {} twice.",
    "Why was I charged more for order {}?",
    "Please refund order {}.",
    "Order {} has not come yet.",
    "Order {} came broken.",
    "Where is order {}?",
    "I cannot sign in to see order {}.",
    "Please change the address of order {}.",
    "I forgot my password and cannot see order {}.",
    "Thank you for order {}.",
    "Do you open at {}?",
    "May I come and look at {} things?",
)


def answer_asks(count: int, new_tokens: int) -> list[Ask]:
    """Greedy asks of all arithmetic families in turn."""
    domain = DOMAINS["arith"]
    families = domain.families
    tasks = [families[at % len(families)].make(SEED + at) for at in range(count)]
    return [
        Ask(key=str(at), messages=told(domain.system, task.prompt), max_tokens=new_tokens)
        for at, task in enumerate(tasks)
    ]


def label_asks(count: int) -> list[LabelAsk]:
    """Messages that are each of one kind."""
    random = Random(SEED)
    shared = [{"role": "system", "content": SYSTEM}]
    for message, label in EXAMPLES:
        shared += [{"role": "user", "content": message}, {"role": "assistant", "content": label}]
    messages = [
        WORDINGS[at % len(WORDINGS)].format(random.randrange(100, 1000)) for at in range(count)
    ]
    return [
        LabelAsk(
            key=str(at), messages=[*shared, {"role": "user", "content": message}], labels=LABELS
        )
        for at, message in enumerate(messages)
    ]


def told(system: str, prompt: str) -> list[Message]:
    """A conversation of one question."""
    return [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
