"""When work may begin on a device: by the hours that people set, and by the memory that is free.

Training and serving share a device while what is free, as measured, holds both. Where it does not,
what serves goes to sleep for the phase that needs the device, and calls are told why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from sqlmodel import Session

from data.hours import Hours, in_words, read_hours
from data.settings import setting
from engine.neighbours import Neighbour
from engine.neighbours import in_words as named

MARGIN = 256_000_000  # bytes that are left to everybody else on a device
SHARE, ALTERNATE, WAIT = "share", "alternate", "wait"
TRY_AGAIN = "it answers again when that phase has ended"


@dataclass(kw_only=True, slots=True, frozen=True)
class Room:
    """The memory of one device in bytes, as measured; `device` is its name for people.

    `worker` and `serving` are what our own two kinds of process hold of it. `promised` is what a
    phase under way has not taken yet and will.
    """

    device: str
    total: int
    free: int
    worker: int = 0
    serving: int = 0
    promised: int = 0


def may_train(need: int | None, room: Room) -> str:
    """Whether a phase may begin: "share" the device as it is, "alternate" with what serves there,
    which then sleeps for it, or "wait". What serves sleeps for an unknown need."""
    own = room.free + room.worker
    if need is None:
        return ALTERNATE if room.serving else SHARE
    if need + MARGIN <= own:
        return SHARE
    return ALTERNATE if need + MARGIN <= own + room.serving else WAIT


def may_serve(need: int | None, room: Room, holder: str | None) -> str | None:
    """Why no process may begin to serve now, in words for the caller of an endpoint; None: it may.

    `holder` is who has the device for a phase. An unknown need is served when nobody has it.
    """
    if need is None:
        return f"{room.device} is held by {holder}; {TRY_AGAIN}" if holder else None
    left = max(0, room.free - room.promised - MARGIN)
    if need <= left:
        return None
    figures = f"it needs {gb(need)}, and {gb(left)} of {room.device} is free"
    if holder is None:
        return f"{figures}; pause another endpoint, or free some memory there"
    return f"{figures} while {holder} has it; {TRY_AGAIN}"


def why_waits(need: int, room: Room, neighbours: Sequence[Neighbour]) -> str:
    """The reason of a run that lacks memory, with whoever else holds it."""
    free = room.free + room.worker + room.serving
    told = f"needs {gb(need)}, and {gb(free)} of the {gb(room.total)} of {room.device} is free"
    others = named(list(neighbours))
    return f"waits for the device: {told}" + (f"; it is used by {others}" if others else "")


def never_fits(least: int, room: Room) -> str | None:
    """Why a run can never begin here; None when the device is large enough for it."""
    if least + MARGIN <= room.total:
        return None
    return (
        f"this run needs at least {gb(least)} of memory, a quarter of its batch at a time, and "
        f"{room.device} has {gb(room.total)} in all: choose a smaller base model, shorter rows "
        "(lora.max_length) or a smaller batch (lora.batch_size)"
    )


def read_hours_set(session: Session) -> Hours:
    """The hours in which rounds may start, as people set them."""
    return Hours(
        window=read_hours(setting(session, "rounds_window")),
        quiet=read_hours(setting(session, "quiet_hours")),
    )


def why_not_now(hours: Hours, moment: datetime | None = None, zone: tzinfo | None = None) -> str:
    """What a round waits for by the hours that are set; "" when it may start.

    `zone` None is the machine's own.
    """
    moment = moment or datetime.now(UTC)
    if hours.allow(moment.astimezone(zone)):
        return ""
    opens = hours.next_start(moment, zone)
    if opens is None:
        return "waits for other quiet_hours: they leave no time in which rounds may start"
    return f"waits for {in_words(moment, opens)}, {_by_which(hours)}"


def _by_which(hours: Hours) -> str:
    """The settings that a round waits for, by their names."""
    if hours.quiet and hours.window:
        return "by quiet_hours and rounds_window"
    return "when quiet_hours are over" if hours.quiet else "when rounds_window opens"


def gb(count: int) -> str:
    """Bytes for people."""
    return f"{count / 1e9:.1f} GB"
