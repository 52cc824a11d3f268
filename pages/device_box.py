"""The device in the drawer: who has it, who waits and why, its memory, who else is on it."""

from dataclasses import dataclass

from app.shapes import Device, DeviceHolder, DeviceMemory, DeviceWait, OtherProcess
from pages import words
from pages.browser import When
from pages.parts import box, share_bar, text

GB = 1e9


@dataclass(kw_only=True, slots=True, frozen=True)
class Words:
    """What the box says; drawn anew only when something of it is said differently."""

    name: str
    held: tuple[tuple[str, str], ...]  # who, and since when
    waiting: str | None
    why: str | None  # of who waits for something else than a turn
    memory: tuple[tuple[str, str, float], ...]  # device, "5.8 of 24.0 GB", share used
    others: tuple[str, ...]


def in_words(device: Device) -> Words:
    """A device as the box says it."""
    memory = tuple(_memory(one, device) for one in device.memory)
    queue = ", ".join(device.waiting)
    why = next((_why(one) for one in device.waits if "held by" not in one.why), None)
    held = tuple((_held(one, device), one.since) for one in device.holders)
    return Words(
        name=device.memory[0].name if len(memory) == 1 else device.name,
        held=held,
        waiting=f"Next: {queue}" if queue else None if why else "Nothing waits",
        why=why,
        memory=memory,
        others=tuple(_other(one) for spot in device.memory for one in spot.others),
    )


def draw(said: Words | None) -> None:
    """The lines of the box."""
    if said is None:
        text("Device not known", "pw-small pw-2 pw-ell", "div")
        return
    if len(said.memory) == 1:
        _meter(said.name, *said.memory[0][1:])
    else:
        text(said.name, "pw-small pw-strong pw-ell", "div")
        for name, used, share in said.memory:
            _meter(name, used, share)
    for who, since in said.held:
        with box("pw-row pw-between pw-small pw-2"):
            _titled(who, "pw-ell", "span")
            When(since, "age").classes("pw-faint pw-nowrap")
    if not said.held:
        text("Idle", "pw-small pw-2 pw-ell", "div")
    if said.waiting:
        text(said.waiting, "pw-small pw-3 pw-ell", "div")
    if said.why:
        text(said.why, "pw-small pw-3 pw-break", "div")
    for other in said.others:
        _titled(other, "pw-small pw-3 pw-ell", "div")


def _meter(name: str, used: str, share: float) -> None:
    with box("pw-row pw-between pw-small"):
        text(name, "pw-strong pw-ell")
        text(used, "pw-2 pw-nowrap")
    share_bar(share, full=share >= 0.99)


def _titled(said: str, classes: str, tag: str) -> None:
    """A line that may be cut off, whole when the mouse rests on it."""
    text(said, classes, tag).props["title"] = said


def _held(one: DeviceHolder, device: Device) -> str:
    who = one.run or (None if one.purpose.startswith("serving") else one.job)
    mark = "simulated" if one.simulated else None
    told = ", ".join(part for part in (one.purpose.replace("_", " "), who, mark) if part)
    several = len({other.device for other in device.memory}) > 1
    return f"{told[:1].upper()}{told[1:]}" + (f" on {one.device}" if several else "")


def _why(one: DeviceWait) -> str:
    return f"{one.run or one.job or 'Another project'} {one.why}"


def _memory(one: DeviceMemory, device: Device) -> tuple[str, str, float]:
    used = one.total - one.free
    share = used / one.total if one.total else 0.0
    return one.device, f"{used / GB:.1f} of {one.total / GB:.0f} GB", round(share, 2)


def _other(one: OtherProcess) -> str:
    held = f", {words.size(one.bytes)}" if one.bytes is not None else ""
    owner = f" of {one.owner}" if one.owner else ""
    return f"Also here: {one.command or 'a process'}{owner} (pid {one.pid}){held}"
