"""The machine as people see it: who has a device, who waits and why, and settings of where and when."""

from typing import Any

import pytest

from app.access import Access
from app.administration import LOCAL_OWNER as OWNER
from app.errors import InvalidRequest
from app.service import Service
from app.shapes import Device
from data.store import Store
from data.tables import Job, Lease, Project
from pages import device_box
from pages.memory_ahead import memory_line
from tests import sample_run

GB = 10**9
ANN = {"pid": 812, "owner": "ann", "command": "python", "bytes": 20 * GB}
CARD = {"device": "cuda:0", "name": "RTX 4090", "total": 24 * GB, "free": 3 * GB, "others": [ANN]}
AHEAD = {
    "device": "RTX 4090 (cuda:0)",
    "usual": 9 * GB,
    "least": 4 * GB,
    "measured": None,
    "measured_in": None,
    "total": 24 * GB,
    "free": 3 * GB,
}


class Seen:
    """A machine with one card, as an engine would have looked at it."""

    def look(self) -> list[dict[str, Any]]:
        return [CARD]

    def devices(self) -> list[str]:
        return ["cuda:0", "cuda:1", "cpu"]

    def ahead(self, domain: str, base_model: str, config: dict[str, Any]) -> dict[str, Any] | None:
        return AHEAD

    def refuses(self, domain: str, base_model: str, config: dict[str, Any]) -> str | None:
        return None


@pytest.fixture
def service(store: Store, access: Access) -> Service:
    access.settings.devices = Seen().devices
    sample_run.fill(store)
    made = Service(store, "RTX 4090")
    made.watch(Seen())
    return made


def give_out(store: Store, project: str) -> None:
    """A training without a loop has the device, and a deployed version answers beside it."""
    spec = {"version": "arith-carry-1/candidate-1", "base_model": "b"}
    rows = [
        Job(id="train-7", project_id=project, type="train", status="running"),
        Job(
            id="train-8",
            project_id=project,
            type="train",
            reason="waits for the device, held by train-7",
        ),
        Job(
            id="endpoint-1",
            project_id=project,
            type="inference",
            status="running",
            spec=spec,
            result={"state": "ready", "since": "2026-03-11T12:00:00Z"},
        ),
        Job(
            id="endpoint-2",
            project_id=project,
            type="inference",
            status="running",
            spec=spec,
            result={"state": "asleep"},
        ),
        Lease(project_id=project, device="cuda:0", job="train-7", purpose="train"),
        Lease(
            project_id=project,
            device="cuda:0",
            job="endpoint-1",
            purpose=f"serving {spec['version']}",
        ),
    ]

    def change(session: Any) -> None:
        if session.get(Project, project) is None:
            session.add(Project(id=project, workspace_id="w", name="other"))
        for row in rows:
            session.add(row)

    store.write(change)


def test_holders_and_those_who_wait_are_told_with_why_and_since_when(service, store):
    give_out(store, OWNER.project_id)
    seen = service.device(OWNER)
    told = [(one.purpose, one.run or one.job, one.device) for one in seen.holders]
    assert ("train", "train-7", "cuda:0") in told
    assert told[-1] == ("serving arith-carry-1/candidate-1", "endpoint-1", "cuda:0")
    assert len(told) == len({job for _, job, _ in told}), "a holder is told twice"
    assert seen.holders[-1].since == "2026-03-11T12:00:00Z"
    assert "train-8" in seen.waiting
    assert any(one.why == "waits for the device, held by train-7" for one in seen.waits)


def test_another_projects_work_is_shown_without_its_name(service, store):
    give_out(store, "prj_other")
    seen = service.device(OWNER)
    assert [one.job for one in seen.holders if one.job] == []
    assert "prj_other" not in seen.model_dump_json() and "train-7" not in seen.model_dump_json()
    assert "serving a version" in [one.purpose for one in seen.holders]
    assert "waits for the device" in [one.why for one in seen.waits]


def test_the_box_says_memory_holders_and_other_peoples_processes(service, store):
    give_out(store, OWNER.project_id)
    said = device_box.in_words(service.device(OWNER))
    assert said.memory == (("cuda:0", "21.0 of 24 GB", 0.88),)
    assert said.held[-1] == ("Serving arith-carry-1/candidate-1", "2026-03-11T12:00:00Z")
    assert "Train, train-7" in [who for who, _ in said.held]
    spec = {"base_model": "sim/student"}
    store.write(lambda s: setattr(s.get_one(Job, "train-7"), "spec", spec))
    marked = device_box.in_words(service.device(OWNER))
    assert "Train, train-7, simulated" in [who for who, _ in marked.held]
    assert said.waiting.endswith("train-8")
    assert said.others == ("Also here: python of ann (pid 812), 20.0 GB",)


def test_the_box_says_what_a_run_waits_for_when_it_is_not_its_turn(store):
    why = "waits for 07:00, when quiet_hours are over"
    device = Device(name="CPU", purpose=None, run=None, waiting=[])
    device.waits = [shape_of_wait("night-1", why)]
    said = device_box.in_words(device)
    assert (said.waiting, said.why, said.held) == (None, f"night-1 {why}", ())


def shape_of_wait(run: str, why: str) -> Any:
    from app.shapes import DeviceWait

    return DeviceWait(run=run, job=None, why=why, since="2026-03-11T12:00:00Z")


def test_the_start_form_says_what_a_run_takes(service):
    found = service.memory_ahead(OWNER, "default")
    assert memory_line(found, dry=False) == (
        "Memory: at most 9.0 GB, or 4.0 GB with a quarter of a batch at a time; 3.0 GB of the "
        "24.0 GB of RTX 4090 (cuda:0) is free. It would wait until 4.0 GB is free."
    )
    known = found.model_copy(update={"measured": 5 * GB, "measured_in": "carry-1", "free": 9 * GB})
    assert memory_line(known, dry=False).startswith("Memory: about 5.0 GB, as measured in carry-1;")
    assert memory_line(known, dry=True) == "Memory: none here, since a dry run trains nothing."
    assert memory_line(None, dry=False) == ""


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("quiet_hours", "22:00-07:00,Sat-Sun 00:00-24:00", "22:00-07:00, Sat-Sun 00:00-24:00"),
        ("rounds_window", "Mon-Fri 18:00-08:00", "Mon-Fri 18:00-08:00"),
        ("train_device", "CUDA:1", "cuda:1"),
        ("serve_device", "cuda", "cuda:0"),
        ("tensor_parallel", "2", "2"),
    ],
)
def test_settings_of_when_and_where_are_kept(service, access, name, given, kept):
    assert access.settings.set(OWNER, name, given).value == kept
    assert access.settings.set(OWNER, name, "").value == ""


@pytest.mark.parametrize("name", ["quiet_hours", "rounds_window"])
def test_none_takes_the_hours_away(access, name):
    access.settings.set(OWNER, name, "22:00-07:00")
    assert access.settings.set(OWNER, name, "None").value == ""


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("quiet_hours", "late", "is not a span such as 22:00-07:00"),
        ("quiet_hours", "00:00-24:00", "would leave no time in which rounds may start"),
        ("train_device", "gpu0", "is not a device such as cuda:0 or cpu"),
        ("train_device", "cuda:4", "this machine has cuda:0, cuda:1, cpu, not cuda:4"),
        ("tensor_parallel", "3", "3 cards from cuda:0 on are not here"),
        ("tensor_parallel", "0", "is not a number of cards"),
    ],
)
def test_settings_that_this_machine_cannot_have_are_refused(service, access, name, value, why):
    with pytest.raises(InvalidRequest, match=why):
        access.settings.set(OWNER, name, value)
