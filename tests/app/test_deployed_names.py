"""One name answers for one version: what would take it over is refused where it is deployed."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import select

from app.administration import LOCAL_OWNER
from app.deployable import Target, find_target
from app.endpoints import deploy, model_named
from app.errors import Conflict, ServiceError
from app.service import Service
from data.home import Home
from data.store import Store
from data.tables import Checkpoint, Version
from engine.types import ModelRef
from pages.deploy import submit
from tests.server.deployed import RUN, lay_version

CANDIDATE, UNTOUCHED = f"{RUN}/candidate-1", f"{RUN}/base"


class Place:
    """A home with a run on the tiny model and its candidate, where versions are deployed."""

    def __init__(self, home: Home, tiny: ModelRef) -> None:
        shutil.copytree(tiny.path, home.models / tiny.base)
        self.base, self.adapter = tiny.base, lay_version(home.path, tiny)
        self.home, self.store = home, Store(home.database)

    def deploy(self, **spec: Any) -> str:
        body = {"type": "inference", "spec": spec}
        job = self.store.write(lambda session: deploy(session, LOCAL_OWNER, self.home, body))
        return job.job_id

    def called(self, name: str) -> str:
        """The version that answers to a name."""
        with self.store.read() as session:
            return str(model_named(session, LOCAL_OWNER, name).spec["version"])

    def found(self, **spec: Any) -> Target:
        with self.store.read() as session:
            return find_target(session, LOCAL_OWNER, self.home, spec)

    def bring(self, name: str) -> None:
        """The candidate once more, as an adapter that was brought here under a name."""

        def write(session: Any) -> None:
            known = session.exec(select(Version).where(Version.adapter == self.adapter)).one()
            facts = known.model_dump(exclude={"id"})
            session.add(Version(**facts | {"run": None, "round": None, "name": name}))
            session.get(Checkpoint, self.adapter).job = f"{RUN}-r1"

        self.store.write(write)


@pytest.fixture
def place(home: Home, tiny: ModelRef) -> Iterator[Place]:
    made = Place(home, tiny)
    yield made
    made.store.close()


def test_a_name_is_not_taken_over(place: Place) -> None:
    job = place.deploy(version=CANDIDATE, name="prod")
    for name in ("prod", CANDIDATE):
        with pytest.raises(
            Conflict, match=f"{CANDIDATE} is deployed as {name}, by job {job}: give"
        ):
            place.deploy(model=place.base, name=name)
    place.deploy(model=place.base, name="other")
    assert (place.called("prod"), place.called("other")) == (CANDIDATE, place.base)


def test_the_name_of_a_version_is_not_given_to_another(place: Place) -> None:
    for name in (CANDIDATE, UNTOUCHED, place.adapter):
        with pytest.raises(Conflict, match=f"name: {name} names another version than"):
            place.deploy(model=place.base, name=name)
    with pytest.raises(Conflict, match="names another version than"):
        place.deploy(version=UNTOUCHED, name=place.base)
    place.deploy(version=CANDIDATE, name=place.adapter)
    assert place.called(place.adapter) == CANDIDATE


def test_a_version_waits_while_its_name_is_somebodys_own_for_another(place: Place) -> None:
    """The name was free when it was chosen; an adapter of that name came later."""
    job = place.deploy(model=place.base, name="carry")
    place.bring("carry")
    for more in ({}, {"name": "mine"}):
        with pytest.raises(Conflict, match=f"{place.base} is deployed as carry, by job {job}"):
            place.deploy(version="carry", **more)


def test_the_console_leaves_a_name_that_is_taken_to_whom_it_names(place: Place) -> None:
    """Trainings by hand may have one name, such as trial-1, and the console asks for no other."""
    place.deploy(model=place.base, name="trial-1")
    spec = {"inputs": {"checkpoint": place.adapter}, "name": "trial-1"}
    service = Service(place.store, "CPU")
    body = {"type": "inference", "request_id": "console-1", "spec": spec}
    job = submit(service, LOCAL_OWNER, body)
    assert submit(service, LOCAL_OWNER, body) == job, "sent again"
    assert (place.called("trial-1"), place.called(CANDIDATE)) == (place.base, CANDIDATE)


def test_a_name_of_two_is_refused_with_what_to_write_instead(place: Place) -> None:
    """A base may be added under the name of an adapter that was brought here before."""
    place.bring("carry")
    shutil.copytree(place.home.models / place.base, place.home.models / "carry")
    with pytest.raises(ServiceError) as refused:
        place.found(version="carry")
    assert refused.value.status == 409
    assert f"model carry for the base, or inputs.checkpoint {place.adapter}" in str(refused.value)
    assert place.found(model="carry").adapter is None
    assert place.found(inputs={"checkpoint": place.adapter}).adapter == place.adapter
