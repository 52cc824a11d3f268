"""One checkpoint of two equal trainings: who loses it is said before, and its id alone removes it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import checkpoint_admin
from app.errors import InUse
from tests.app.test_hand_jobs import body, finish, submit
from tests.door import Door, door

LIST = "/v1/job/checkpoints"
SEEDED = {"training": {"seed": 3}}


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Door]:
    with door(tmp_path / "home") as opened:
        yield opened


def twins(works: Door) -> tuple[str, str, str]:
    """Two jobs and the id of the checkpoint that both trained, the second a moment later."""
    jobs = []
    for _ in range(2):
        job = submit(works, body(**SEEDED))
        assert finish(works, job)["status"] == "completed"
        jobs.append(job)
        time.sleep(0.01)
    ids = {one["checkpoint_id"] for one in works.get(LIST)["items"]}
    (checkpoint,) = ids
    return jobs[0], jobs[1], checkpoint


def typed(works: Door, command: str, **arguments: Any) -> Any:
    """What a command of `run.py checkpoint` is answered."""
    commands = checkpoint_admin.commands(works.pawl.store, works.pawl.home)
    return commands[f"checkpoint.{command}"](**arguments)


def test_a_name_of_one_deletes_nothing_of_the_other(works: Door) -> None:
    first, second, checkpoint = twins(works)
    for reference in (f"envloop://{second}/{checkpoint}", second):
        for dry in (True, False):
            with pytest.raises(InUse, match=f"{first} and {second} have the same files"):
                typed(works, "delete", reference=reference, dry_run=dry)
    assert len(works.get(LIST)["items"]) == 2

    would = typed(works, "delete", reference=checkpoint, dry_run=True)
    assert would["names"] == [first, second] and len(works.get(LIST)["items"]) == 2
    assert typed(works, "delete", reference=checkpoint, dry_run=False)["names"] == [first, second]
    assert works.get(LIST)["items"] == []


def test_the_answer_names_all_and_their_jobs_say_that_it_was_deleted(works: Door) -> None:
    first, second, checkpoint = twins(works)
    assert "checkpoint_deleted_at" not in works.get(f"/v1/job/{first}")["training"]
    told = works.ask("DELETE", f"{LIST}/{checkpoint}?dry_run=true").json()
    done = works.ask("DELETE", f"{LIST}/{checkpoint}").json()
    assert told["names"] == done["names"] == [first, second]
    asked = works.get(f"/v1/projects/prj_local/operations/{done['operation_id']}")
    assert asked["names"] == [first, second]
    for job in (first, second):
        training = works.get(f"/v1/job/{job}")["training"]
        assert training["checkpoint_deleted_at"] and "checkpoint" not in training


def test_a_card_has_the_date_of_the_job_that_was_asked_for(works: Door) -> None:
    made = {job: None for job in twins(works)[:2]}
    for item in works.get(LIST)["items"]:
        about = typed(
            works, "about", reference=f"envloop://{item['job_id']}/{item['checkpoint_id']}"
        )
        assert (about["name"], about["made"]) == (item["job_id"], item["created_at"])
        made[item["job_id"]] = about["made"]
    assert len(set(made.values())) == 2
