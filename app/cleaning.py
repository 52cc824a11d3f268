"""The administration command behind `run.py clean`: what would go, or what went."""

from collections.abc import Callable, Collection
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from data.cleaning import clean
from data.home import Home
from data.retention import plan_cleaning
from data.store import Store


def commands(
    store: Store, home: Home, in_use: Callable[[], Collection[str]] = frozenset
) -> dict[str, Callable[..., Any]]:
    """`clean`, as plain JSON. `in_use` names checkpoints that stay whatever else is true of them,
    such as those of deployed versions; it is asked each time."""

    def answer(yes: bool = False) -> dict[str, Any]:
        if yes:
            return asdict(clean(store, home, in_use()))
        with store.read() as session:
            return asdict(plan_cleaning(session, home, in_use(), datetime.now(UTC)))

    return {"clean": answer}
