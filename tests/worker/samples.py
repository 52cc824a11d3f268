"""Small asks, rows and jobs for the worker's tests."""

import json
from pathlib import Path
from random import Random

from engine.types import Answer, Ask, LoraSettings, Message, ModelRef, TrainJob

SYSTEM = "Reply with the number only."


def messages(prompt: str) -> list[Message]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]


def sums(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Prompts of two-digit sums, and their answers."""
    random = Random(seed)
    pairs = [(random.randint(10, 99), random.randint(10, 99)) for _ in range(count)]
    return [(f"{a} + {b} = ?", str(a + b)) for a, b in pairs]


def asks(count: int, *, max_tokens: int = 8, temperature: float = 0.0) -> list[Ask]:
    return [
        Ask(
            key=str(number),
            messages=messages(prompt),
            max_tokens=max_tokens,
            temperature=temperature,
            seed=number,
        )
        for number, (prompt, _) in enumerate(sums(count))
    ]


def mixed_asks() -> list[Ask]:
    """Asks of very different lengths, with and without a system prompt."""
    prompts = [
        messages("2 + 2 = ?"),
        messages("What is the capital of France? Answer in one sentence, please."),
        [{"role": "user", "content": "Say hello."}],
        [{"role": "user", "content": "List three fruits, and say why each of them is good. " * 3}],
        messages("17 + 25 = ?"),
    ]
    return [
        Ask(key=str(number), messages=prompt, max_tokens=6 + 3 * number)
        for number, prompt in enumerate(prompts)
    ]


def alike_asks() -> list[Ask]:
    """Asks that begin alike and go on differently far."""
    prompts = ["2 + 2 = ?", "Name three animals, two fruits and one river.", "123456 + 98765 = ?"]
    return [
        Ask(key=str(number), messages=messages(prompt), max_tokens=10)
        for number, prompt in enumerate(prompts)
    ]


class Collector:
    """Takes batches of answers into a dictionary by key."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers

    def __call__(self, batch: list[Answer]) -> None:
        self.answers.update({answer.key: answer for answer in batch})


def never() -> bool:
    return False


def write_rows(path: Path, count: int, seed: int = 1) -> str:
    """A training file of sums; its path."""
    lines = [
        json.dumps({"messages": messages(prompt), "completion": answer, "ends": True})
        for prompt, answer in sums(count, seed)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def job(folder: Path, model: ModelRef, rows: int = 24, **settings: float) -> TrainJob:
    """A training of a few small steps in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {"batch_size": 4, "rank": 4, "alpha": 8, "checkpoint_seconds": 1e9, **settings}
    return TrainJob(
        model=model,
        rows_file=write_rows(folder / "rows.jsonl", rows),
        out_dir=str(folder / "out"),
        state_dir=str(folder / "state"),
        settings=LoraSettings(**chosen),  # type: ignore[arg-type]
        seed=7,
    )
