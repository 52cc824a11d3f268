"""Hours of the day as people write them: "22:00-07:00", "Mon-Fri 18:00-08:00, Sat-Sun 00:00-24:00".

They are hours of a wall clock. Whether a moment is among them is asked of the local time at that
moment, so that an hour which a clock change leaves out, or repeats, needs no case of its own.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MINUTES = 24 * 60  # of a day by the wall clock
WEEK = timedelta(days=8)  # within which all that comes every week has come
FORM = re.compile(
    r"(?:(?P<first>[A-Z][a-z]{2})(?:-(?P<last>[A-Z][a-z]{2}))? )?"
    r"(?P<start>[0-2][0-9]:[0-5][0-9])-(?P<end>[0-2][0-9]:[0-5][0-9])"
)


@dataclass(kw_only=True, slots=True, frozen=True)
class Span:
    """From `start` to `end`, minutes of the day, on the days on which it starts (0 is Monday).

    One that ends no later than it starts goes on into the next day.
    """

    days: frozenset[int]
    start: int
    end: int

    def holds(self, day: int, minute: int) -> bool:
        """Whether a minute of a weekday is in it."""
        if self.start < self.end:
            return day in self.days and self.start <= minute < self.end
        before = (day - 1) % 7
        return (day in self.days and minute >= self.start) or (
            before in self.days and minute < self.end
        )


@dataclass(kw_only=True, slots=True, frozen=True)
class Hours:
    """When something may begin: inside `window` (always, where there is none), not in `quiet`."""

    window: tuple[Span, ...] = ()
    quiet: tuple[Span, ...] = ()

    def allow(self, local: datetime) -> bool:
        """Whether it may begin at that moment of the local clock."""
        day, minute = local.weekday(), local.hour * 60 + local.minute
        if any(span.holds(day, minute) for span in self.quiet):
            return False
        return not self.window or any(span.holds(day, minute) for span in self.window)

    def next_start(self, moment: datetime, zone: tzinfo | None = None) -> datetime | None:
        """The next minute, from `moment` on, at which it may begin, in local time; None: never.

        `zone` None is the machine's own.
        """
        return _next_start(self, moment.astimezone(UTC).replace(second=0, microsecond=0), zone)


def read_hours(text: str) -> tuple[Span, ...]:
    """The spans that `text` names, none for an empty one; a ValueError says what does not fit."""
    return tuple(_span(part.strip()) for part in text.split(",") if part.strip())


def in_words(moment: datetime, opens: datetime) -> str:
    """The local time at which something opens, with its day when that is a day or more ahead."""
    far = opens - moment >= timedelta(hours=24)
    return f"{DAYS[opens.weekday()]} {opens:%H:%M}" if far else f"{opens:%H:%M}"


@lru_cache(maxsize=16)
def _next_start(hours: Hours, minute: datetime, zone: tzinfo | None) -> datetime | None:
    for ahead in range(int(WEEK / timedelta(minutes=1))):
        local = (minute + timedelta(minutes=ahead)).astimezone(zone)
        if hours.allow(local):
            return local
    return None


def _span(text: str) -> Span:
    match = FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a span such as 22:00-07:00 or Mon-Fri 18:00-08:00")
    start, end = _minute(match["start"]), _minute(match["end"])
    if start == end or start == MINUTES:
        raise ValueError(f"{text!r} has no length; the whole day is 00:00-24:00")
    return Span(days=_days(match["first"], match["last"]), start=start, end=end)


def _days(first: str | None, last: str | None) -> frozenset[int]:
    for name in (first, last):
        if name is not None and name not in DAYS:
            raise ValueError(f"{name!r} is not a day; days are {', '.join(DAYS)}")
    if first is None:
        return frozenset(range(7))
    start = DAYS.index(first)
    length = (DAYS.index(last) - start) % 7 + 1 if last is not None else 1
    return frozenset((start + ahead) % 7 for ahead in range(length))


def _minute(text: str) -> int:
    hour, _, minute = text.partition(":")
    found = int(hour) * 60 + int(minute)
    if found > MINUTES:
        raise ValueError(f"{text!r} is no time of day; the last one is 24:00")
    return found
