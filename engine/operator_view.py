"""What the operator is shown before it plans: short, bounded, from readable splits alone.

It sees difficulties with their figures, a few failed answers, earlier decisions and what people
said. Dev, blind, held-out and guard tasks never pass through here.
"""

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, col, select

from data.tables import INSERTED, Directive, Evaluation, Round, Run, Sample, Steer
from data.tables import Task as TaskRow

READABLE = ("diag", "train")  # splits whose tasks and answers an operator may read
FAILURES = 3  # failed answers shown of a family, of different difficulties where there are
PROMPT_CHARS = 200
ANSWER_CHARS = 120
EARLIER_ROUNDS = 8
REASON_CHARS = 300
DIRECTIVES = 20  # the newest ones
STEERS = 10  # of one turn, the oldest first; the others wait for the next


def look(session: Session, run: str, round_: int) -> dict[str, Any]:
    """Brief, failures of this round's diagnosis, earlier rounds, directives and queued steers."""
    return {
        "brief": session.get_one(Run, run).brief,
        "failures": failures(session, run, round_),
        "earlier": _earlier(session, run, round_),
        "directives": _directives(session, run),
        "steers": _queued_steers(session, run),
    }


def failures(session: Session, run: str, round_: int) -> dict[str, list[dict[str, str]]]:
    """A few failed answers by family: prompt and answer clipped, with the Verifier's reason."""
    query = (
        select(Sample, TaskRow.prompt)
        .join(Evaluation, col(Evaluation.id) == Sample.evaluation)
        .join(TaskRow, (col(TaskRow.id) == Sample.task) & (col(TaskRow.run) == run))
        .where(Evaluation.run == run, Evaluation.round == round_, col(Sample.score) < 1)
        .where(col(Evaluation.split).in_(READABLE), TaskRow.split == Evaluation.split)
        .order_by(col(Sample.id))
    )
    shown: dict[str, dict[str, dict[str, str]]] = {}
    for sample, prompt in session.exec(query):
        of_family = shown.setdefault(sample.family, {})
        if len(of_family) < FAILURES:
            of_family.setdefault(sample.stratum, _extract(sample, prompt))
    return {family: list(some.values()) for family, some in sorted(shown.items())}


def _extract(sample: Sample, prompt: str) -> dict[str, str]:
    return {
        "prompt": clip(prompt, PROMPT_CHARS),
        "answer": clip(sample.text or "", ANSWER_CHARS),
        "why": clip(sample.reason, ANSWER_CHARS),
    }


def clip(text: str, longest: int) -> str:
    """At most that many characters that any file takes; what was cut off is marked."""
    whole = text.encode("utf-8", "replace").decode().replace("\0", " ").strip()
    return whole if len(whole) <= longest else whole[: longest - 1] + "…"


def as_shown(work: Mapping[str, Any]) -> dict[str, Any]:
    """The plan's work description as the operator reads it."""
    families = {
        family: {
            "label": work["labels"][family],
            "tasks left": work["rooms"][family],
            "difficulties": {
                name: {"right": round(one["mean"] * one["n"]), "of": one["n"]}
                for name, one in by_stratum.items()
            },
            "failed answers": work["failures"].get(family, []),
        }
        for family, by_stratum in work["strata"].items()
    }
    return {
        "round": work["round"],
        "brief": work["brief"],
        "most tasks": work["tasks"],
        "families": families,
        "settings of the recipe": work["settings"],
        "earlier rounds": work["earlier"],
        "directives": work["directives"],
        "steers": work["steers"],
    }


def _earlier(session: Session, run: str, round_: int) -> list[dict[str, Any]]:
    """What the last rounds tried and how it ended, the oldest first."""
    query = select(Round).where(Round.run == run, Round.number < round_)
    newest = session.exec(query.order_by(col(Round.number).desc()).limit(EARLIER_ROUNDS)).all()
    return [
        {
            "round": row.number,
            "tasks": {family: one["tasks"] for family, one in row.plan.get("families", {}).items()},
            "settings": row.plan.get("settings"),
            "hypothesis": clip(row.hypothesis or "", REASON_CHARS),
            "decision": row.decision or row.outcome,
            "reason": clip(row.reason or "", REASON_CHARS),
        }
        for row in reversed(newest)
    ]


def _directives(session: Session, run: str) -> list[dict[str, str]]:
    rows = session.exec(select(Directive).where(Directive.run == run).order_by(INSERTED)).all()
    return [{"id": row.id, "text": row.text} for row in rows[-DIRECTIVES:]]


def _queued_steers(session: Session, run: str) -> list[dict[str, str]]:
    query = select(Steer).where(Steer.run == run, Steer.status == "queued")
    rows = session.exec(query.order_by(INSERTED).limit(STEERS))
    return [{"id": row.id, "text": row.text} for row in rows]
