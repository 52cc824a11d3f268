"""Lists that this server has nothing for yet, and what it says of a thing in one of them."""

from app import paging
from app import project_shapes as shapes
from app.errors import DatasetNotFound, NotFound, ProfileNotFound, TrialNotFound, Unsupported

REFUSALS: dict[str, type[NotFound]] = {
    "dataset": DatasetNotFound,
    "profile": ProfileNotFound,
    "trial": TrialNotFound,
}


def empty_page(limit: int, cursor: str | None) -> shapes.EmptyPage:
    """No items; limit and cursor are checked all the same."""
    items, next_cursor = paging.part([], limit, cursor)
    return shapes.EmptyPage(items=items, next_cursor=next_cursor)


def not_here(kind: str, name: str) -> NotFound:
    """The refusal to show a thing, by its kind."""
    return REFUSALS.get(kind, NotFound)(f"there is no {kind} {name} here")


def unsupported(what: str) -> Unsupported:
    """The refusal to do something that this server does not offer."""
    return Unsupported(f"{what} cannot be done here; the README says what can")
