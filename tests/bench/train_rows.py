"""Makes the rows of the training benchmark: `python -m tests.bench.train_rows MODEL FOLDER ROWS`.

Lengths are log-normal with a median of 90 tokens and at most 256, a quarter of each row is its
completion. The text is made of plain sentences from few words, so that there is something to learn.
In FOLDER: `rows.jsonl` as a run writes them, `ids.jsonl` with the same rows as token ids in the
order in which our steps take them, `held-out.jsonl` with 64 others as token ids.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from engine.models.batches import TrainRow, plan_steps, read_rows
from tests.bench.train_sizes import HELD_OUT, SEED, batch_size

MEDIAN, SIGMA, LONGEST = 90, 0.6, 256
SYSTEM = "Go on with the text."
ARTICLES = ("the", "a", "every", "this", "that", "one")
ADJECTIVES = ("old", "red", "small", "quiet", "green", "tall", "warm", "empty", "heavy", "young")
NOUNS = ("river", "house", "road", "garden", "boat", "town", "tree", "horse", "mountain", "field")
VERBS = ("follows", "crosses", "holds", "finds", "leaves", "meets", "covers", "sees")
LINKS = ("near", "behind", "before", "under", "after", "without")


def main(model: str, folder: str, count: str) -> None:
    """Write the three files."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    place, random, rows = Path(folder), Random(SEED), int(count)
    written = place / "rows.jsonl"
    write(written, (row(tokenizer, random) for _ in range(rows)))
    trained = read_rows(tokenizer, written, LONGEST)
    assert len(trained) == rows, f"{rows - len(trained)} rows are too long"
    order = [at for step in plan_steps(rows, batch_size(rows), 1.0, SEED) for at in step]
    write(place / "ids.jsonl", (as_ids(trained[at]) for at in order))
    others = place / "others.jsonl"
    write(others, (row(tokenizer, random) for _ in range(HELD_OUT)))
    write(place / "held-out.jsonl", map(as_ids, read_rows(tokenizer, others, LONGEST)))
    print(json.dumps({"rows": rows, "tokens": sum(len(one.ids) for one in trained)}))


def row(tokenizer: Any, random: Random) -> dict[str, Any]:
    """One row of a length drawn at random, as a run's training file has it."""
    from engine.models.renderer import render_row

    length = min(LONGEST, max(48, round(random.lognormvariate(0.0, SIGMA) * MEDIAN)))
    answer = length // 4 - 1  # the end token is a target as well
    text = words(random)
    empty, _ = render_row(tokenizer, messages(" x"), "", True)
    prompt = " ".join(next(text) for _ in range(length - answer - len(empty)))
    completion = "".join(f" {next(text)}" for _ in range(answer))
    return {"messages": messages(prompt), "completion": completion, "ends": True}


def messages(prompt: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]


def words(random: Random) -> Iterator[str]:
    """The words of endless sentences; each is one token behind a space."""
    while True:
        for some in (ARTICLES, ADJECTIVES, NOUNS, VERBS, ARTICLES, NOUNS, LINKS, ARTICLES, NOUNS):
            yield random.choice(some)
        yield "."


def as_ids(row: TrainRow) -> dict[str, list[int]]:
    """A row for TRL: token ids, and 1 where loss falls."""
    return {
        "input_ids": row.ids,
        "completion_mask": [int(at >= row.start) for at in range(len(row.ids))],
    }


def write(path: Path, rows: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
