"""A home of its own with its owner, for the tests of who comes in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
