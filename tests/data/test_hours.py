"""Hours of the day as people write them, and the next moment at which they let something begin."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from data.hours import Hours, in_words, read_hours

BERLIN = ZoneInfo("Europe/Berlin")


def hours(window: str = "", quiet: str = "") -> Hours:
    return Hours(window=read_hours(window), quiet=read_hours(quiet))


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    """A moment of a local clock."""
    return datetime.fromisoformat(text).replace(tzinfo=zone)


def test_nothing_set_is_always():
    assert hours().allow(at("2026-03-11T03:00"))


@pytest.mark.parametrize(
    ("time", "may"),
    [("21:59", True), ("22:00", False), ("03:00", False), ("06:59", False), ("07:00", True)],
)
def test_quiet_hours_go_on_over_midnight(time, may):
    assert hours(quiet="22:00-07:00").allow(at(f"2026-03-11T{time}")) is may


@pytest.mark.parametrize(
    ("moment", "may"),
    [
        ("2026-03-13T18:00", True),  # a Friday
        ("2026-03-14T07:59", True),  # its night goes on into Saturday
        ("2026-03-14T08:00", False),
        ("2026-03-15T19:00", False),  # on Sunday no night begins
        ("2026-03-16T07:00", False),
        ("2026-03-16T18:00", True),
    ],
)
def test_a_window_belongs_to_the_days_on_which_it_opens(moment, may):
    assert hours(window="Mon-Fri 18:00-08:00").allow(at(moment)) is may


def test_a_window_of_whole_days_and_days_that_go_round_the_week():
    weekend = hours(window="Sat-Sun 00:00-24:00")
    assert weekend.allow(at("2026-03-15T23:59")) and not weekend.allow(at("2026-03-16T00:00"))
    assert hours(window="Sat-Mon 09:00-10:00").allow(at("2026-03-16T09:30"))


def test_quiet_hours_take_away_from_the_window():
    both = hours(window="18:00-23:00", quiet="20:00-21:00")
    assert both.next_start(at("2026-03-11T20:30"), BERLIN) == at("2026-03-11T21:00")
    assert both.next_start(at("2026-03-11T23:00"), BERLIN) == at("2026-03-12T18:00")


def test_what_is_open_opens_at_once_and_what_never_opens_says_so():
    moment = at("2026-03-11T12:00")
    assert hours(quiet="22:00-07:00").next_start(moment, BERLIN) == moment
    assert hours(quiet="00:00-24:00").next_start(moment, BERLIN) is None


def test_the_night_that_loses_an_hour_opens_by_the_wall_clock():
    before = at("2026-03-29T01:30")  # at two it is three
    opens = hours(quiet="22:00-07:00").next_start(before, BERLIN)
    assert opens == at("2026-03-29T07:00")
    assert opens - before.astimezone(UTC) == timedelta(hours=4.5)


def test_hours_that_the_clock_leaves_out_open_as_soon_as_they_are_over():
    before = at("2026-03-29T00:00")
    opens = hours(window="02:30-05:00").next_start(before, BERLIN)
    assert opens is not None and opens.astimezone(UTC) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert f"{opens:%H:%M}" == "03:00"


def test_the_night_that_has_an_hour_twice_is_quiet_for_an_hour_more():
    before = at("2026-10-25T01:30")  # at three it is two again
    opens = hours(quiet="22:00-07:00").next_start(before, BERLIN)
    assert opens is not None and opens - before.astimezone(UTC) == timedelta(hours=6.5)


def test_the_opening_has_its_day_when_it_is_a_day_or_more_ahead():
    moment = at("2026-03-13T12:00")
    assert in_words(moment, at("2026-03-14T07:00")) == "07:00"
    assert in_words(moment, at("2026-03-16T07:00")) == "Mon 07:00"


@pytest.mark.parametrize(
    "text", ["22-7", "25:00-07:00", "22:00-22:00", "Abc 22:00-07:00", "24:00-07:00", "22:00-24:30"]
)
def test_what_does_not_fit_is_refused_in_words(text):
    with pytest.raises(ValueError, match="22:00|time of day|no length|not a day"):
        read_hours(text)
