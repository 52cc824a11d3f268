"""Blind: a dev winner against the best so far on fresh sealed tasks, paired, once.

This is the one module that can reach sealed tasks. What leaves it are scores and counts; a round's
blind tasks become readable after its gate, held-out and guard tasks never.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, select

from data.tables import Evaluation, Round, TrainingRow, Version
from engine import sealed
from engine.answers import answer_tasks, plain
from engine.draws import next_index, record_draws, record_tasks, spread
from engine.errors import StepFailed
from engine.evaluations import Scored, family_means, item_scores, record_evaluation, stored_scores
from engine.facts import RunFacts, Tools, derived_seed
from engine.identity import content_hash, protocol
from engine.statistics import compare
from engine.types import AnyVerifier, Harness, Task, as_dict
from engine.versions import BASE, best_version, describe, find_version, model_of
from engine.words import plain_text

NAME = "blind"
EXTERNAL = "external"  # the split of public suites, which no gate reads
USES_DEVICE = True


def prepare(session: Session, run: RunFacts, round_: int, past: dict[str, Any]) -> dict[str, Any]:
    """Which versions meet, how many tasks, and what is known of them already; no task yet."""
    candidate = find_version(session, run.id, past["train"]["candidate"])
    base = find_version(session, run.id, BASE)
    best = best_version(session, run.id)
    assert candidate is not None and base is not None
    limits = run.config.limits
    rows = session.exec(select(TrainingRow).where(TrainingRow.run == run.id))
    return {
        "versions": _distinct([best, candidate]),
        "best": describe(best),
        "candidate": describe(candidate),
        "counts": spread(limits.blind_n, run.config.families),
        "starts": _starts(session, run),
        "held_out": spread(limits.eval_limit, run.config.held_out),
        "guard": limits.eval_limit if run.dry else None,
        "known": _known_scores(session, run, [best, candidate]),
        "row_prompts": sorted({row.messages[-1]["content"] for row in rows}),
        "row_keys": sorted({row.canonical_key for row in rows if row.canonical_key}),
    }


def execute(work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
    """Answer blind, held-out and guard tasks with both versions; score and count, keep no task."""
    drawn, following = sealed.blind_tasks(run, work["counts"], work["starts"])
    blind = [one.task for one in drawn]
    held_out = sealed.held_out_tasks(run, work["held_out"])
    guard = tools.library.guard
    guard_tasks = _spaced(guard.tasks, work["guard"])
    guard_harness = Harness(system=guard.system, max_tokens=guard.max_tokens)
    harness, verifier = run.config.harness, run.domain.verifier
    suites = [
        _Suite(run.domain.name, "blind", blind, harness, verifier),
        _Suite(run.domain.name, "held_out", held_out, harness, verifier),
        _Suite("guard", "guard", guard_tasks, guard_harness, guard.verifier),
    ]
    suites += [_external(name, run, tools) for name in run.config.external]
    measured = [suite.measure(work, run, tools) for suite in suites]
    return {
        "suites": measured,
        "following": following,
        "overlap": _overlap(work, blind + held_out, guard_tasks),
    }


def record(
    session: Session, run: RunFacts, round_: int, work: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """Write the evaluations and the paired figures that the gate decides on."""
    record_draws(session, run.id, "blind", result["following"])
    summary: dict[str, Any] = {"overlap": result["overlap"], "starts": work["starts"]}
    summary["counts"] = work["counts"]
    for suite in result["suites"]:
        scores = dict(suite["known"])
        for version in work["versions"]:
            if version["hash"] in suite["graded"]:
                graded = suite["graded"][version["hash"]]
                record_evaluation(session, run, _scored(round_, version, suite), graded)
                scores[version["hash"]] = item_scores(graded)
        best, candidate = scores[work["best"]["hash"]], scores[work["candidate"]["hash"]]
        name = suite["suite"] if suite["split"] == EXTERNAL else suite["split"]
        summary[name] = as_dict(compare(best, candidate)) | {
            "protocol": content_hash(suite["protocol"]),
            "families": _families(suite, work),
        }
    figures = summary["blind"]
    summary["text"] = f"{figures['n']} of {figures['asked']} blind tasks scored for both"
    return summary


def unseal(session: Session, run: RunFacts, round_: int, blind: dict[str, Any]) -> None:
    """After the gate: write this round's blind tasks for people to read; they are not drawn again."""
    query = select(Round).where(Round.run == run.id, Round.number == round_)
    assert session.exec(query).one().outcome is not None, "blind tasks are sealed until the gate"
    drawn, _ = sealed.blind_tasks(run, blind["counts"], blind["starts"])
    plain_tasks = [{"index": one.index, "task": as_dict(one.task)} for one in drawn]
    record_tasks(session, run, "blind", plain_tasks, round_)


class _Suite:
    """One sealed suite: its tasks, and how they are asked and verified."""

    def __init__(
        self, name: str, split: str, tasks: list[Task], harness: Harness, verifier: AnyVerifier
    ) -> None:
        self.name, self.split, self.tasks = name, split, tasks
        self.harness, self.verifier = harness, verifier

    def measure(self, work: dict[str, Any], run: RunFacts, tools: Tools) -> dict[str, Any]:
        """Graded answers by version hash; versions measured under this protocol are not asked."""
        measured = protocol(
            [task.id for task in self.tasks],
            self.verifier,
            self.harness,
            tools.student.name,
            self._seed(run),
            tools.verdicts.isolation(self.verifier),
        )
        known = work["known"].get(content_hash(measured), {})
        graded: dict[str, list[dict[str, Any]]] = {}
        seconds: dict[str, float] = {}
        for version in work["versions"]:
            if version["hash"] not in known:
                started = time.monotonic()
                graded[version["hash"]] = self._answers(version, run, tools)
                seconds[version["hash"]] = time.monotonic() - started
        return {
            "suite": self.name,
            "split": self.split,
            "protocol": measured,
            "planned": len(self.tasks),
            "graded": graded,
            "known": known,
            "seconds": seconds,
        }

    def _answers(
        self, version: dict[str, Any], run: RunFacts, tools: Tools
    ) -> list[dict[str, Any]]:
        graded = answer_tasks(
            tools,
            model_of(tools, version),
            self.tasks,
            self.harness,
            self.verifier,
            label=f"{self.split.replace('_', '-')} answers of {version['name']}",
            seed=self._seed(run),
        )
        return plain(graded)

    def _seed(self, run: RunFacts) -> int:
        return derived_seed(run.secret, self.split)


def _external(name: str, run: RunFacts, tools: Tools) -> _Suite:
    """A public suite, at most `eval_limit` of its tasks; StepFailed when it is not to be had."""
    try:
        suite = tools.library.external[name]()
    except (KeyError, ValueError) as missing:
        known = ", ".join(tools.library.external)
        raise StepFailed(f"external suite {name}: {missing}; known are {known}") from None
    harness = Harness(system=suite.system, max_tokens=suite.max_tokens)
    tasks = _spaced(suite.tasks, run.config.limits.eval_limit)
    return _Suite(suite.name, EXTERNAL, tasks, harness, suite.verifier)


def _spaced(tasks: Sequence[Task], limit: int | None) -> list[Task]:
    """All tasks, or at most `limit` of them, evenly spaced, so that every kind is among them."""
    count = min(limit or len(tasks), len(tasks))
    return [tasks[i * len(tasks) // count] for i in range(count)]


def _scored(round_: int, version: dict[str, Any], suite: dict[str, Any]) -> Scored:
    return Scored(
        round=round_,
        version=version["name"],
        version_hash=version["hash"],
        suite=suite["suite"],
        split=suite["split"],
        protocol=suite["protocol"],
        planned=suite["planned"],
        seconds=suite["seconds"][version["hash"]],
    )


def _distinct(versions: Sequence[Version]) -> list[dict[str, Any]]:
    """Each version once: in a dry run the candidate is the student itself."""
    by_hash = {version.version_hash: describe(version) for version in versions}
    return list(by_hash.values())


def _starts(session: Session, run: RunFacts) -> dict[str, int]:
    return {f.id: next_index(session, run.id, "blind", f.id) for f in run.config.families}


def _known_scores(
    session: Session, run: RunFacts, versions: Sequence[Version]
) -> dict[str, dict[str, dict[str, float | None]]]:
    """Protocol hash -> version hash -> scores, for suites that stay the same from round to round."""
    known: dict[str, dict[str, dict[str, float | None]]] = {}
    hashes = {version.version_hash for version in versions}
    query = select(Evaluation.protocol_hash).where(
        Evaluation.run == run.id, col(Evaluation.split).in_(["held_out", "guard", EXTERNAL])
    )
    for protocol_hash in set(session.exec(query)):
        for one in hashes:
            scores = stored_scores(session, run.id, one, protocol_hash)
            if scores is not None:
                known.setdefault(protocol_hash, {})[one] = scores
    return known


def _families(suite: dict[str, Any], work: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Mean by family for each version that was asked this time."""
    names = {version["hash"]: version["name"] for version in work["versions"]}
    return {names[key]: family_means(graded) for key, graded in suite["graded"].items()}


def _overlap(
    work: Mapping[str, Any], hidden: Sequence[Task], guard: Sequence[Task]
) -> dict[str, int]:
    """How many sealed tasks meet a training row: counts alone leave this module."""
    prompts = {plain_text(text) for text in work["row_prompts"]}
    keys = set(work["row_keys"])
    return {
        "hidden_tasks": len(hidden) + len(guard),
        "rows": len(work["row_prompts"]),
        "keys": sum(1 for task in hidden if task.canonical_key in keys),
        "texts": sum(1 for task in [*hidden, *guard] if plain_text(task.prompt) in prompts),
    }
