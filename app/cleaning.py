"""The administration command behind `run.py clean`: what would go, or what went."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from data.cleaning import clean
from data.home import Home
from data.retention import plan_cleaning
from data.store import Store


def commands(store: Store, home: Home) -> dict[str, Callable[..., Any]]:
    """`clean`, as plain JSON."""

    def answer(yes: bool = False) -> dict[str, Any]:
        if yes:
            return asdict(clean(store, home))
        with store.read() as session:
            return asdict(plan_cleaning(session, home, datetime.now(UTC)))

    return {"clean": answer}
