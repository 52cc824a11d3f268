"""A home of its own with its owner, and a clock, for the tests of who comes in."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app import throttle
from app.access import Access
from data.home import Home, open_home
from data.store import Store


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    opened = Store(home.database)
    yield opened
    opened.close()


@pytest.fixture
def access(store: Store, home: Home) -> Access:
    made = Access(store, home)
    made.ensure_owner()
    return made


class Clock:
    """The time of whoever guesses: it stands still until a test lets some of it pass."""

    fromisoformat = staticmethod(datetime.fromisoformat)

    def __init__(self) -> None:
        self._at = datetime.now(UTC).replace(microsecond=0)

    def let_pass(self, seconds: float) -> None:
        self._at += timedelta(seconds=seconds)

    def now(self, _zone: object) -> datetime:
        return self._at

    def text(self, span: timedelta = timedelta()) -> str:
        """The moment `span` from now, as the tables write it."""
        moment = (self._at + span).isoformat(timespec="milliseconds")
        return moment.replace("+00:00", "Z")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the throttle goes by: no machine is too slow to be told to wait a second."""
    made = Clock()
    monkeypatch.setattr(throttle, "datetime", made)
    for name in ("now", "from_now"):
        monkeypatch.setattr(throttle, name, made.text)
    return made
