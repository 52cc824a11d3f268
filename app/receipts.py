"""What became of what people said: which plans read it, and which followed it and how."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import case, func
from sqlmodel import Session, col, select

from app import shapes
from data.tables import INSERTED, Directive, Round, Steer


def directives(session: Session, run: str) -> list[shapes.DirectiveShape]:
    """Standing instructions of a run, oldest first, each with the plans that read and followed it."""
    plans = _plans(session, run)
    query = select(Directive).where(Directive.run == run).order_by(INSERTED)
    return [
        shapes.DirectiveShape(
            id=row.id,
            text=row.text,
            author=row.author,
            at=row.created_at,
            read=[number for number, (_, read) in plans.items() if row.id in read],
            used=_uses(plans, row.id),
        )
        for row in session.exec(query)
    ]


def steers(session: Session, run: str) -> list[shapes.SteerShape]:
    """A run's steers, oldest first, each with the plan that followed it."""
    query = select(Steer).where(Steer.run == run).order_by(INSERTED)
    rows = session.exec(query).all()
    plans = _plans(session, run, {row.round for row in rows if row.round is not None})
    return [
        shapes.SteerShape(
            id=row.id,
            text=row.text,
            author=row.author,
            status=row.status,
            reason=row.reason,
            round=row.round,
            at=row.created_at,
            delivered_at=row.delivered_at,
            used=next(iter(_uses(plans, row.id)), None),
        )
        for row in rows
    ]


def followed(plan: dict[str, Any]) -> list[shapes.Followed]:
    """What a plan says that it follows, in the words of who said it."""
    said = {
        one["id"]: one["text"] for kind in ("directives", "steers") for one in plan.get(kind, [])
    }
    return [
        shapes.Followed(kind=one["kind"], id=one["id"], text=said[one["id"]], how=one["how"])
        for one in plan.get("followed", [])
    ]


Plan = tuple[dict[str, str], set[str]]  # how it followed what, by id; the directives that it read


def _plans(session: Session, run: str, rounds: Iterable[int] | None = None) -> dict[int, Plan]:
    """The plans of some rounds or of all. Of each only these two lists leave the database."""
    readable = func.json_valid(Round.plan)  # one broken row must not spoil the query
    cited, read = (
        case((readable, func.json_extract(Round.plan, f"$.{name}")))
        for name in ("followed", "directives")
    )
    query = select(Round.number, cited, read).where(Round.run == run).order_by(col(Round.number))
    if rounds is not None:
        query = query.where(col(Round.number).in_(rounds))
    return {
        number: (
            {one["id"]: one["how"] for one in json.loads(found[0] or "[]")},
            {one["id"] for one in json.loads(found[1] or "[]")},
        )
        for number, *found in session.exec(query)
    }


def _uses(plans: dict[int, Plan], said: str) -> list[shapes.PlanUse]:
    return [
        shapes.PlanUse(round=number, how=cited[said])
        for number, (cited, _) in plans.items()
        if said in cited
    ]
