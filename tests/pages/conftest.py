"""A signed-in user of the console over a store of sample runs, behind the real guard."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from nicegui import app as web
from nicegui import ui
from nicegui.testing import User

from app.access import Access, cookie_name
from app.guard import Guard
from app.service import Service
from data.home import open_home
from data.store import Store
from data.tables import User as Person
from tests import sample_run

PORT = 8710
PATIENCE = 30.0  # seconds; a thread that reads or writes may take long on a busy machine


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks for something on a page looks again for so long, unless told how often."""
    for name, pause in (("should_see", 0.1), ("should_not_see", 0.05)):
        look = partialmethod(getattr(User, name), retries=int(PATIENCE / pause))
        monkeypatch.setattr(User, name, look)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(open_home(tmp_path / "home").database)
    yield opened
    opened.close()


@pytest.fixture
def access(store: Store, tmp_path: Path) -> Access:
    made = Access(store, open_home(tmp_path / "home"))
    made.ensure_owner()
    return made


@pytest.fixture
def service(store: Store) -> Service:
    return Service(store, "CPU, 2 cores")


@pytest.fixture
def empty(user: User, service: Service, access: Access) -> User:
    """Signed in to a project without runs."""
    from pages import nothing, site  # dropped from sys.modules between tests, so imported anew

    site.register(service, access)
    web.add_exception_handler(404, nothing.nothing_here(service, access))
    web.middleware_stack = Guard(
        web.build_middleware_stack(), access=access, port=PORT, allowed_hosts=["test"]
    )
    link = access.sign_in_link("http://test")
    token = access.open_session(link.partition("?link=")[2])
    assert token is not None
    user.http_client.cookies.set(cookie_name(PORT), token)
    return user


@pytest.fixture
def console(empty: User, store: Store) -> User:
    """Signed in to a project with every kind of sample run."""
    sample_run.fill(store)
    return empty


def texts(user: User) -> list[str]:
    """Every text on the page, in its order."""
    from nicegui import ElementFilter, ui

    with user:
        return [label.text for label in ElementFilter(kind=ui.label)]


def stop_looking(user: User) -> None:
    """From now on the page looks only when it is told to, not when its time comes."""
    for timer in user.find(ui.timer).elements:
        timer.callback = lambda: None


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait for what a handler or a look of the page brings about."""
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    assert condition()


def demote(store: Store, role: str = "viewer") -> None:
    """Take rights away from the signed-in owner."""

    def change(session: Any) -> None:
        session.get_one(Person, "owner").role = role

    store.write(change)
