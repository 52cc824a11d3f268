"""A whole Pawl in one process for tests: store, engine and service on a home of its own."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlmodel import select

from app.access import Access
from app.administration import LOCAL_OWNER
from app.service import Service
from app.shapes import RunDetail
from data.home import Home, open_home
from data.ledger import MICRO
from data.store import Store
from data.tables import Setting
from engine.facts import Library
from engine.scheduler import Engine, EngineSettings
from engine.verdicts import why_no_sandbox
from run import library

OWNER = LOCAL_OWNER
LIBRARY = library()


class Instance:
    """The parts of a running Pawl; `start` and `wait` drive runs on it."""

    def __init__(
        self, path: Path, micro_per_hour: int = 0, library: Library = LIBRARY, **more: Any
    ) -> None:
        self.home: Home = open_home(path)
        self.store = Store(self.home.database)
        if micro_per_hour:
            rate = Setting(name="device_usd_per_hour", value=str(micro_per_hour / MICRO))
            self.store.write(lambda s: s.merge(rate))
        settings = EngineSettings(device="cpu", **{"pace_seconds": 0.0, **more})
        self.engine = Engine(self.store, self.home, library, settings)
        Access(self.store, self.home).ensure_owner()
        self.service = Service(self.store, "cpu", why_no_sandbox)
        self.service.watch(self.engine.machine)

    def start(self, run: str, **fields: object) -> None:
        """Start a run as the owner; simulated and seeded unless the fields say otherwise."""
        given = {"preset": "sim", "seed": 7, "limits": {"max_model_cost_usd": 1.0}, **fields}
        if given.get("dry_run"):
            given.pop("preset", None)
        self.service.start_run(OWNER, run=run, brief="learn arithmetic", **given)

    def wait(self, run: str, seconds: float = 180) -> RunDetail:
        """The run once it has ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.service.run_detail(OWNER, run)
            if found.state in ("finished", "failed", "stopped"):
                return found
            time.sleep(0.02)
            self.engine.tick()
        raise AssertionError(f"run {run} is still {found.state}: {found.activity}")

    def rows(self, table: Any, **where: Any) -> list[Any]:
        """What a table holds, in the order in which it was written."""
        with self.store.read() as session:
            query = select(table).filter_by(**where).order_by(text("rowid"))
            return list(session.exec(query))


@contextmanager
def instance(path: Path, micro_per_hour: int = 0, **more: Any) -> Iterator[Instance]:
    """An instance that is stopped and closed afterwards, as a server would be."""
    one = Instance(path, micro_per_hour, **more)
    try:
        yield one
    finally:
        one.engine.stop()
        one.store.close()
