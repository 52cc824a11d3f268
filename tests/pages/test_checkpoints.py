"""Checkpoints: what is listed, what a removal would free before it happens, deploying one."""

from typing import Any

import pytest
from nicegui import ui
from nicegui.testing import User
from sqlmodel import Session, select, update

from data.home import Home, open_home
from data.store import Store
from data.tables import Checkpoint, Job, Version
from tests.pages.conftest import demote, until
from tests.pages.parrot import lay_checkpoints
from tests.pages.test_jobs import HAND, confirm, rows

BEST = "tinker://arith-carry-1/weights/candidate-1"
SECOND = "tinker://arith-carry-1/weights/candidate-2"


@pytest.fixture
def laid(console: User, store: Store) -> User:
    """The console with the checkpoints of the sample runs on disk."""
    home: Home = open_home(store.path.parent)
    store.write(lambda session: lay_checkpoints(home, session))
    return console


async def test_a_row_names_run_base_and_size(laid: User) -> None:
    await laid.open("/checkpoints?run=arith-carry-1")
    second, first = rows(laid)
    assert (second["version"], first["version"]) == ("candidate-2", "candidate-1")
    assert (first["run"], first["base"]) == ("arith-carry-1", "SmolLM2-135M-Instruct")
    assert (first["size"], first["files"]) == ("9.8 MB", "2 files")
    assert [one["action"] for one in first["menu"]] == ["download", "files", "deploy", "delete"]
    laid.find(ui.table).trigger("act", {"action": "files", "key": BEST})
    await laid.should_see("adapter_model.safetensors")


async def test_a_simulated_checkpoint_says_so_and_is_not_deployed(laid: User, store: Store) -> None:
    store.write(lambda session: session.exec(update(Version).values(simulated=True)))
    await laid.open("/checkpoints?run=arith-carry-1")
    second, _ = rows(laid)
    assert second["simulated"] is True
    assert [one["action"] for one in second["menu"]] == ["download", "files", "delete"]
    (table,) = laid.find(ui.table).elements
    slots = table.slots
    assert "Simulated" in str(slots["item"].template)
    assert "Simulated" in str(slots["body-cell-version"].template)
    laid.find(ui.table).trigger("act", {"action": "deploy", "key": SECOND})
    await laid.should_see("Deploy arith-carry-1/candidate-2?")
    confirm(laid)
    await laid.should_see("arith-carry-1/candidate-2 is simulated")
    await laid.should_not_see("tinker://")


async def test_a_removal_is_told_before_it_happens(laid: User, store: Store) -> None:
    await laid.open("/checkpoints")
    table = laid.find(ui.table)
    table.trigger("act", {"action": "delete", "key": BEST})
    await laid.should_see("the best of arith-carry-1")
    table.trigger("act", {"action": "delete", "key": SECOND})
    await laid.should_see("The weights are gone for good: 9.8 MB in 2 files.")
    confirm(laid)

    def gone() -> Any:
        with store.read() as session:
            return session.get_one(Checkpoint, "9f3e2c0ffee").deleted_at

    await until(gone)
    await until(lambda: SECOND not in [row["key"] for row in rows(laid)])
    folder = store.path.parent / "checkpoints" / "9f3e2c0ffee"
    await until(lambda: not folder.exists())


async def test_all_that_lose_the_weights_are_named_and_a_job_says_that_they_were_deleted(
    laid: User, store: Store
) -> None:
    def share(session: Session) -> None:
        (first,) = session.exec(select(Version).where(Version.adapter == "9f3e2c0ffee"))
        session.add(Job(**HAND))
        same = first.model_dump(exclude={"id", "created_at"})
        session.add(Version(**same | {"run": None, "round": None, "name": "job-1"}))

    store.write(share)
    await laid.open("/checkpoints")
    laid.find(ui.table).trigger("act", {"action": "delete", "key": SECOND})
    await laid.should_see("arith-carry-1/candidate-2, job-1 have the same weights")
    confirm(laid)
    await until(lambda: SECOND not in [row["key"] for row in rows(laid)])
    await laid.open("/jobs/arith-carry-1-r2?tab=checkpoints")
    await laid.should_see("What it trained was deleted; its scores stay.")


async def test_a_checkpoint_is_deployed_beside_its_base(laid: User, store: Store) -> None:
    await laid.open("/checkpoints")
    laid.find(ui.table).trigger("act", {"action": "deploy", "key": SECOND})
    await laid.should_see("Deploy arith-carry-1/base too")
    confirm(laid)
    await laid.should_see("Compare with")
    with store.read() as session:
        jobs = session.exec(select(Job).where(Job.type == "inference")).all()
    assert sorted(job.spec["version"] for job in jobs) == [
        "arith-carry-1/base",
        "arith-carry-1/candidate-2",
    ]


async def test_a_viewer_takes_away_and_no_more(laid: User, store: Store) -> None:
    demote(store)
    await laid.open("/checkpoints")
    assert [one["action"] for one in rows(laid)[0]["menu"]] == ["download", "files"]
    laid.find(ui.table).trigger("act", {"action": "delete", "key": SECOND})
    await laid.should_see("owner lacks the capability deploy")


async def test_without_checkpoints_it_says_where_they_come_from(console: User) -> None:
    await console.open("/checkpoints")
    await console.should_see("No checkpoints in this project yet")
    await console.should_not_see(ui.table)
