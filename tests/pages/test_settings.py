"""Settings: a change there waits for the store beside the event loop, so that no page stands still."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nicegui import ui
from nicegui.testing import User
from sqlmodel import Session, select

from data.store import Store
from data.tables import ApiKey, Project
from tests.pages.conftest import texts, until

HELD_SECONDS = 60.0  # as long as a page that waited for the writer would stand still


@asynccontextmanager
async def busy_writer(store: Store) -> AsyncIterator[None]:
    """The store's one writer has other work; what is done meanwhile must not wait for it."""
    begun, let_go = threading.Event(), threading.Event()

    def work(_session: Session) -> None:
        begun.set()
        let_go.wait(HELD_SECONDS)

    held = asyncio.create_task(asyncio.to_thread(store.write, work))
    await asyncio.to_thread(begun.wait)
    since = time.monotonic()
    try:
        yield
        await asyncio.sleep(0.1)
        assert time.monotonic() - since < HELD_SECONDS
    finally:
        let_go.set()
        await held


def a_key(session: Session) -> None:
    project = session.exec(select(Project.id)).one()
    session.add(
        ApiKey(id="k1", project_id=project, name="nightly", key_hash="-", capabilities=["read"])
    )


async def test_a_new_key_is_made_while_the_pages_go_on(empty: User, store: Store) -> None:
    await empty.open("/settings/keys")
    empty.find("New key").click()
    empty.find(ui.input).type("nightly")
    async with busy_writer(store):
        empty.find(marker="confirm").click()
    await empty.should_see("shown this once")


async def test_a_key_is_revoked_while_the_pages_go_on(empty: User, store: Store) -> None:
    store.write(a_key)
    await empty.open("/settings/keys")
    empty.find("Revoke").click()
    async with busy_writer(store):
        empty.find(marker="confirm").click()
    await empty.should_see("Revoked")


async def test_a_person_is_added_while_the_pages_go_on(empty: User, store: Store) -> None:
    await empty.open("/settings/people")
    empty.find("Add a person").click()
    for field in empty.find(ui.input).elements:
        field.value = "correct horse battery" if field.props.get("type") == "password" else "ann"
    async with busy_writer(store):
        empty.find(marker="confirm").click()
    await until(lambda: "ann" in texts(empty))
