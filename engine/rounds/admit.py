"""Admit: which verified answers become training rows, each with its lineage, replay mixed in.

A round that trains from the base trains on the rows of earlier rounds as well.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

from sqlmodel import Session, col, select

from data.files import write_durable
from data.tables import Sample, TrainingRow
from data.tables import Task as TaskRow
from engine.draws import rebuild
from engine.errors import StepFailed
from engine.facts import RunFacts, Tools, derived_seed
from engine.identity import content_hash
from engine.rounds.collect import replay_file
from engine.types import Task

NAME = "admit"
USES_DEVICE = False
SOLUTIONS_PER_TASK = 2
MASTERED_SHARE = 0.2  # of rows, from tasks that the student had right every time
REPLAY = "replay"
WORKING_FIELDS = frozenset({"mastered", "number"})  # of a row while it is being chosen


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """Every right answer of this round's collection, student's first, then the help given."""
    evaluation = past["collect"]["evaluation"]
    of_round = select(Sample).where(Sample.evaluation == evaluation)
    samples = session.exec(of_round.order_by(col(Sample.id))).all()
    query = select(TaskRow).where(
        TaskRow.run == run.id, TaskRow.split == "train", TaskRow.round == round_
    )
    tasks = {row.id: row for row in session.exec(query.order_by(col(TaskRow.row)))}
    earlier = select(TrainingRow).where(TrainingRow.run == run.id, TrainingRow.round < round_)
    known = session.exec(earlier.order_by(col(TrainingRow.id))).all()
    settings = past["plan"]["plan"]["settings"]
    return {
        "candidates": [
            *_candidates(tasks, samples, past["collect"]["helped"]),
            *_reworded(tasks, past["collect"].get("reworded", [])),
        ],
        "used": sorted({row.row_hash for row in known}),
        "again": [_plain_row(row) for row in known] if settings["start"] == "base" else [],
        "replay_share": settings["replay_share"],
        "round": round_,
    }


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Drop duplicates, cap families and mastered tasks, check a sample again, mix replay in."""
    ask = run.config.harness.messages
    found = [_row(one, ask(one["prompt"]), run) for one in work["candidates"]]
    new, left_out = _new_rows(found, set(work["used"]))
    unmastered = _cap_mastered(new)
    rows = _cap_families(unmastered, run.config.limits.max_rows_per_family)
    left_out["mastered"] = len(new) - len(unmastered)
    left_out["family full"] = len(unmastered) - len(rows)
    defects = _check_again(rows, run, tools, work["round"])
    rows += _replay_rows(rows, run, tools, work)
    Random(derived_seed(run.secret, f"admit|{work['round']}")).shuffle(rows)
    write_durable(rows_file(tools.folder, work["round"]), _training_text(work["again"] + rows))
    return {
        "rows": rows,
        "candidates": len(found),
        "left_out": dict(left_out),
        "defects": defects,
    }


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write the rows; a round without any ends here."""
    for row in result["rows"]:
        fields = {name: value for name, value in row.items() if name not in WORKING_FIELDS}
        session.add(
            TrainingRow(
                project_id=run.project_id,
                run=run.id,
                round=round_,
                simulated=run.simulated,
                **fields,
            )
        )
    rows = result["rows"]
    replay = sum(1 for row in rows if row["source"] == REPLAY)
    share = replay / len(rows) if rows else 0.0
    summary = {
        "rows": len(rows),
        "trained": len(work["again"]) + len(rows),
        "by_source": dict(Counter(row["source"] for row in rows)),
        "by_family": dict(Counter(row["family"] for row in rows)),
        "candidates": result["candidates"],
        "left_out": result["left_out"],
        "defects": result["defects"],
        "text": f"{len(rows)} rows, {share:.0%} replay",
    }
    if work["again"]:
        summary["text"] += f", with {len(work['again'])} of earlier rounds"
    if len(rows) == replay:
        summary |= {"ends": "reject", "reason": "nothing new to train on: no row was admitted"}
    elif result["defects"]:
        reason = f"{result['defects']} rows failed when they were verified again"
        summary |= {"ends": "reject", "reason": reason}
    return summary


def rows_file(folder: Path, round_: int) -> Path:
    """Where a round's training rows lie, as the trainer reads them."""
    return folder / f"rows-{round_}.jsonl"


def _plain_row(row: TrainingRow) -> dict[str, Any]:
    """A row of an earlier round, which training from the base needs again."""
    return {
        "messages": row.messages,
        "completion": row.completion,
        "ends": row.ends,
        "family": row.family,
    }


def _candidates(
    tasks: dict[str, TaskRow], samples: Any, helped: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    attempts: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        attempts[sample.task].append(sample)
    found = []
    for task_id, task in tasks.items():
        right = [sample for sample in attempts[task_id] if sample.score == 1]
        mastered = bool(right) and len(right) == len(attempts[task_id])
        found += [_candidate(task, one.text, "student", None, mastered) for one in right]
        if task_id in helped:
            help_ = helped[task_id]
            found.append(_candidate(task, help_["text"], help_["source"], help_["model"], False))
    return found


def _reworded(tasks: dict[str, TaskRow], reworded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tasks in the teacher's own words, with its answers."""
    return [
        _candidate(tasks[one["task"]], one["text"], "reworded", one["model"], False)
        | {"prompt": one["prompt"]}
        for one in reworded
    ]


def _candidate(
    task: TaskRow, text: str | None, source: str, model: str | None, mastered: bool
) -> dict[str, Any]:
    return {
        "task": task.id,
        "family": task.family,
        "stratum": task.stratum,
        "canonical_key": task.canonical_key,
        "prompt": task.prompt,
        "completion": text,
        "source": source,
        "source_model": model,
        "mastered": mastered,
        "number": task.number,
    }


def _row(one: dict[str, Any], messages: list[dict[str, str]], run: RunFacts) -> dict[str, Any]:
    verifier = run.domain.verifier
    return {
        "family": one["family"],
        "stratum": one["stratum"],
        "task": one["task"],
        "canonical_key": one["canonical_key"],
        "source": one["source"],
        "source_model": one["source_model"],
        "messages": messages,
        "completion": one["completion"].strip(),
        "ends": True,
        "verifier": f"{verifier.name}:{verifier.sha256[:16]}",
        "row_hash": content_hash([messages, one["completion"].strip()]),
        "mastered": one["mastered"],
        "number": one["number"],
    }


def _new_rows(
    rows: list[dict[str, Any]], seen: set[str]
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Rows that are new to the run, at most two a task; and how many are left out, by reason."""
    per_task: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    kept = []
    for row in rows:
        if row["row_hash"] in seen:
            left_out["duplicate"] += 1
        elif per_task[row["task"]] >= SOLUTIONS_PER_TASK:
            left_out["enough of the task"] += 1
        else:
            seen.add(row["row_hash"])
            per_task[row["task"]] += 1
            kept.append(row)
    return kept, left_out


def _cap_mastered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most a fifth of the rows from tasks that need no more training."""
    hard = [row for row in rows if not row["mastered"]]
    room = int(len(hard) * MASTERED_SHARE / (1 - MASTERED_SHARE))
    easy = [row for row in rows if row["mastered"]]
    return hard + (easy[:room] if hard else easy)


def _cap_families(rows: list[dict[str, Any]], cap: int) -> list[dict[str, Any]]:
    taken: Counter[str] = Counter()
    kept = []
    for row in rows:
        taken[row["family"]] += 1
        if taken[row["family"]] <= cap:
            kept.append(row)
    return kept


def _check_again(rows: list[dict[str, Any]], run: RunFacts, tools: Tools, round_: int) -> int:
    """Acceptance sampling: rebuild a sample of tasks from their seeds and verify once more.

    No defect in 59 rows means at most 5 % defects with 95 % confidence. StepFailed when a row gets
    no verdict: it is neither right nor wrong then.
    """
    sample = Random(derived_seed(run.secret, f"check|{round_}")).sample(
        rows, min(len(rows), run.config.limits.admission_n)
    )
    answers = [(_task_of(row, run), row["completion"]) for row in sample]
    verdicts = tools.verdicts.of(run.domain.verifier, answers, tools.stop)
    unjudged = [verdict for verdict in verdicts if verdict.score is None]
    if unjudged:
        why = unjudged[0].parsed or unjudged[0].reason
        raise StepFailed(f"{len(unjudged)} rows could not be verified again: {why}")
    return sum(1 for verdict in verdicts if verdict.score != 1)


def _task_of(row: dict[str, Any], run: RunFacts) -> Task:
    return rebuild(run, "train", row["family"], row["number"], row["task"])


def _replay_rows(
    rows: list[dict[str, Any]], run: RunFacts, tools: Tools, work: dict[str, Any]
) -> list[dict[str, Any]]:
    """The base model's own answers to general prompts, enough for the stated share."""
    file = replay_file(tools.folder)
    if not rows or not file.exists():
        return []
    share = work["replay_share"]
    wanted = round(len(rows) * share / (1 - share))
    stock = [json.loads(line) for line in file.read_text().splitlines()]
    Random(derived_seed(run.secret, f"replay|{work['round']}")).shuffle(stock)
    chosen = [stock[i % len(stock)] for i in range(wanted)] if stock else []
    return [_replay_row(one) for one in chosen]


def _replay_row(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "family": REPLAY,
        "stratum": "general",
        "task": None,
        "canonical_key": None,
        "source": REPLAY,
        "source_model": None,
        "messages": one["messages"],
        "completion": one["completion"],
        "ends": one["ends"],
        "verifier": None,
        "row_hash": content_hash([one["messages"], one["completion"]]),
        "mastered": False,
    }


def _training_text(rows: list[dict[str, Any]]) -> bytes:
    """What the trainer needs of each row, as JSON lines."""
    lines = [
        json.dumps({name: row[name] for name in ("messages", "completion", "ends", "family")})
        for row in rows
    ]
    return ("\n".join(lines) + "\n").encode()
