"""When work may begin: by the hours that people set, by the memory that is free, on which device."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlmodel import select

from app.shapes import RunDetail
from data.hours import Hours, read_hours
from data.store import Store
from data.tables import Lease, Setting
from engine.errors import NeedsMending
from engine.neighbours import Neighbour
from engine.serving.places import Places, check_places
from engine.timetable import (
    ALTERNATE,
    SHARE,
    WAIT,
    Room,
    may_serve,
    may_train,
    never_fits,
    why_not_now,
    why_waits,
)
from tests.engine.stepwise import standing
from tests.instance import OWNER, Instance, instance
from tests.server.process import SMALL

GB = 10**9
CARD = Room(device="RTX 4090 (cuda:0)", total=24 * GB, free=10 * GB)


# By memory


def test_training_shares_a_device_while_what_is_free_holds_it():
    assert may_train(9 * GB, CARD) == SHARE
    assert may_train(12 * GB, replace(CARD, worker=3 * GB)) == SHARE  # the worker has some already
    assert may_train(None, replace(CARD, free=0)) == SHARE  # nobody knows, and nothing serves


def test_what_serves_sleeps_for_a_phase_that_fits_without_it():
    assert may_train(12 * GB, replace(CARD, serving=5 * GB)) == ALTERNATE
    assert may_train(16 * GB, replace(CARD, serving=5 * GB)) == WAIT
    assert may_train(None, replace(CARD, serving=5 * GB)) == ALTERNATE


def test_an_endpoint_is_served_beside_a_phase_that_leaves_it_room():
    assert may_serve(6 * GB, CARD, "carry-1 (train)") is None
    assert may_serve(6 * GB, CARD, None) is None


def test_an_endpoint_that_does_not_fit_is_told_who_has_the_device():
    why = may_serve(6 * GB, replace(CARD, promised=5 * GB), "carry-1 (train)")
    assert why == (
        "it needs 6.0 GB, and 4.7 GB of RTX 4090 (cuda:0) is free while carry-1 (train) has it; "
        "it answers again when that phase has ended"
    )
    assert may_serve(None, CARD, "carry-1 (train)").startswith("RTX 4090 (cuda:0) is held by")
    assert may_serve(None, CARD, None) is None
    assert "pause another endpoint" in may_serve(11 * GB, CARD, None)


def test_a_run_that_lacks_memory_names_who_has_it():
    ann = Neighbour(pid=812, owner="ann", command="python", bytes=20 * GB)
    assert why_waits(9 * GB, replace(CARD, free=3 * GB), [ann]) == (
        "waits for the device: needs 9.0 GB, and 3.0 GB of the 24.0 GB of RTX 4090 (cuda:0) is "
        "free; it is used by python of ann (pid 812) with 20.0 GB"
    )


def test_what_never_fits_is_refused_with_the_figures():
    assert never_fits(20 * GB, CARD) is None
    assert "at least 31.0 GB" in never_fits(31 * GB, CARD)
    assert "has 24.0 GB in all" in never_fits(31 * GB, CARD)


# By the device that is set


def test_places_say_which_cards_serve():
    places = Places(train_device="cuda:0", serve_device="cuda:1", tensor_parallel=2)
    assert places.serve_devices == ["cuda:1", "cuda:2"] and not places.shared
    assert places.visible_cards == "1,2"
    assert Places(train_device="cuda:0", serve_device="cuda:0").shared
    check_places(places, ["cuda:0", "cuda:1", "cuda:2", "cpu"])


@pytest.mark.parametrize(
    ("places", "mend"),
    [
        (Places(train_device="cuda:4", serve_device="cpu"), "train_device cuda:0"),
        (Places(train_device="cpu", serve_device="cuda:4"), "serve_device cuda:0"),
        (
            Places(train_device="cpu", serve_device="cuda:0", tensor_parallel=3),
            "tensor_parallel 1",
        ),
    ],
)
def test_a_device_that_is_not_here_is_refused_with_its_mend(places, mend):
    with pytest.raises(NeedsMending, match=f"setting set {mend}"):
        check_places(places, ["cuda:0", "cuda:1", "cpu"])


def test_a_run_rests_until_a_device_that_is_not_here_is_mended(tmp_path):
    with instance(tmp_path) as pawl:
        put(pawl.store, "train_device", "cuda:7")
        pawl.start("r", rounds=1, limits=SMALL)
        run = wait_until(pawl, "r", "train_device is cuda:7, and this machine has")
        assert run.state == "paused"
        put(pawl.store, "train_device", "")
        pawl.service.control(OWNER, "r", "resume")
        with standing(pawl, "r", "after_round_begin") as run:
            assert (run.state, run.round) == ("running", 1)


# By the hours that are set


def test_a_round_says_what_it_waits_for():
    night = Hours(quiet=read_hours("22:00-07:00"))
    eleven = datetime(2026, 3, 11, 23, 0, tzinfo=UTC)
    why = why_not_now(night, eleven, UTC)
    assert why == "waits for 07:00, when quiet_hours are over"
    assert why_not_now(night, eleven + timedelta(hours=8), UTC) == ""
    window = Hours(window=read_hours("01:00-05:00"))
    assert why_not_now(window, eleven, UTC) == "waits for 01:00, when rounds_window opens"
    both = Hours(quiet=night.quiet, window=read_hours("06:00-08:00"))
    assert why_not_now(both, eleven, UTC) == "waits for 07:00, by quiet_hours and rounds_window"


def test_a_clock_that_jumps_is_asked_anew_every_time():
    night = Hours(quiet=read_hours("22:00-07:00"))
    noon = datetime(2026, 3, 11, 12, 0, tzinfo=UTC)
    jumps = [noon, noon.replace(hour=23), noon.replace(year=2200), noon.replace(hour=6)]
    assert [bool(why_not_now(night, moment, UTC)) for moment in jumps] == [False, True, False, True]


def test_no_run_begins_in_quiet_hours_and_it_goes_on_by_itself(tmp_path):
    with instance(tmp_path) as pawl:
        put(pawl.store, "quiet_hours", closed_now())
        pawl.start("night", rounds=1, limits=SMALL)
        pawl.start("dry", dry_run=True, rounds=1, limits=SMALL)
        with standing(pawl, "dry", "after_round_begin") as dry:
            assert dry.state == "running"  # it uses no device
            waiting = pawl.service.run_detail(OWNER, "night")
            assert waiting.state == "starting"
            assert waiting.reason.endswith(", when quiet_hours are over")
            device = pawl.service.device(OWNER)
            assert [wait.run for wait in device.waits] == ["night"] and device.waiting == []
        put(pawl.store, "quiet_hours", "")
        with standing(pawl, "night", "after_round_begin") as night:
            assert night.state == "running"


def test_the_round_under_way_ends_and_the_next_waits_until_the_hours_open(tmp_path):
    with instance(tmp_path) as pawl:
        pawl.start("r", rounds=2, limits=SMALL)
        with standing(pawl, "r", "after_round_begin"):
            put(pawl.store, "quiet_hours", closed_now())
        run = wait_until(pawl, "r", "when quiet_hours are over")
        assert run.state == "running" and [one.outcome for one in run.rounds] == ["completed"]
        with pawl.store.read() as session:
            assert not session.exec(select(Lease).where(Lease.state == "held")).all()
        put(pawl.store, "quiet_hours", "")
        assert [one.outcome for one in pawl.wait("r").rounds] == ["completed", "completed"]


def test_a_run_that_waits_for_its_hours_can_be_stopped(tmp_path):
    with instance(tmp_path) as pawl:
        put(pawl.store, "quiet_hours", closed_now())
        pawl.start("r", rounds=1, limits=SMALL)
        wait_until(pawl, "r", "when quiet_hours are over")
        pawl.service.control(OWNER, "r", "stop")
        assert pawl.wait("r").state == "stopped"


def closed_now() -> str:
    """Quiet hours that began an hour ago and end in two, by the local clock."""
    now = datetime.now(UTC).astimezone()
    return f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}"


def put(store: Store, name: str, value: str) -> None:
    """Give a setting a value, as its door would."""
    store.write(lambda s: s.merge(Setting(name=name, value=value)))


def wait_until(pawl: Instance, run: str, words: str) -> RunDetail:
    """The run once its reason, or what it does, has these words in it."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        pawl.engine.tick()
        found = pawl.service.run_detail(OWNER, run)
        if words.lower() in f"{found.reason} {found.activity}".lower():
            return found
        time.sleep(0.01)
    raise AssertionError(f"{run} is {found.state}: {found.reason or found.activity}")
