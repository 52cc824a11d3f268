"""Every device of this machine, with its memory and who else uses it, as seen at the last look."""

import logging
import os
import threading
import time
from dataclasses import dataclass

from sqlmodel import col, select

from data.memory import memory
from data.store import Reader
from data.tables import Child
from engine.cards import Card, CardUse, read_cards, read_uses
from engine.device import cpu_label
from engine.neighbours import Neighbour, is_ours, largest, neighbour, resident
from engine.serving.places import normal
from engine.timetable import Room

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0  # between two looks
OLD_SECONDS = 10.0  # from then on it is better to wait for a new one
PATIENCE = 2.0  # at most
LARGE = 500_000_000  # bytes of main memory from which a process is worth naming
WORKER, SERVER = "worker", "server"  # what a process of ours is for; anything else serves

Children = dict[int, str]  # our processes by number, with what they are for


@dataclass(kw_only=True, slots=True, frozen=True)
class Spot:
    """One device: its room, what people call it, and the processes of others that are on it."""

    room: Room
    label: str
    neighbours: tuple[Neighbour, ...] = ()


class Spots:
    """Looks at devices no more often than every three seconds, beside the readers: only one to whom
    it would have nothing to tell, or nothing but old news, waits for a look, and not for long."""

    def __init__(self, store: Reader) -> None:
        self._store = store
        self._seen: dict[str, Spot] = {}
        self._seen_at = 0.0
        self._looking: threading.Thread | None = None
        self._lock = threading.Lock()

    def all(self) -> dict[str, Spot]:
        """Every device by torch's name, the cards first."""
        with self._lock:
            age = time.monotonic() - self._seen_at if self._seen else OLD_SECONDS
            if age > LOOK_SECONDS and (self._looking is None or not self._looking.is_alive()):
                self._looking = threading.Thread(
                    target=self._look_beside, name="cards", daemon=True
                )
                self._looking.start()
            looking = self._looking
        if age >= OLD_SECONDS and looking is not None:
            looking.join(PATIENCE)
        return self._seen or {"cpu": main_memory(self._children())}

    def one(self, device: str, fresh: bool = False) -> Spot:
        """One device; with `fresh` as it is at this moment, which may take a while."""
        if fresh:
            self.look()
        found = self.all()
        return found.get(normal(device)) or found["cpu"]

    def look(self) -> None:
        """See every device as it is now."""
        children = self._children()
        cards = read_cards()
        uses = read_uses() if cards else []
        seen = {f"cuda:{at}": card_spot(at, card, uses, children) for at, card in enumerate(cards)}
        self._seen = {**seen, "cpu": main_memory(children)}
        self._seen_at = time.monotonic()

    def _look_beside(self) -> None:
        try:
            self.look()
        except Exception as error:  # noqa: BLE001  the home may be closing: the last news stay
            log.warning("the devices were not looked at: %s", error)

    def large(self) -> tuple[Neighbour, ...]:
        """Who else holds much of main memory."""
        roots = set(self._children())
        return tuple(largest(lambda pid: is_ours(pid, roots), LARGE))

    def _children(self) -> Children:
        with self._store.read() as session:
            query = select(Child.pid, Child.purpose).where(col(Child.ended_at).is_(None))
            found: Children = dict(session.exec(query).all())
        return {**found, os.getpid(): SERVER}


def main_memory(children: Children) -> Spot:
    """Main memory, on which the processor computes."""
    total, free = memory()
    held = {pid: resident(pid) for pid, purpose in children.items() if purpose != SERVER}
    worker = sum(count for pid, count in held.items() if children[pid] == WORKER)
    serving = sum(held.values()) - worker
    room = Room(device="main memory", total=total, free=free, worker=worker, serving=serving)
    return Spot(room=room, label=cpu_label())


def card_spot(at: int, card: Card, uses: list[CardUse], children: Children) -> Spot:
    """A card with who uses it: ours by what they are for, everybody else by name."""
    here = [use for use in uses if use.uuid == card.uuid]
    mine = {use.pid: _purpose(use.pid, children) for use in here if is_ours(use.pid, children)}
    worker = sum(use.bytes or 0 for use in here if mine.get(use.pid) == WORKER)
    own = sum(use.bytes or 0 for use in here if use.pid in mine)
    return Spot(
        room=Room(
            device=f"{card.name} (cuda:{at})",
            total=card.total,
            free=card.free,
            worker=worker,
            serving=own - worker,
        ),
        label=card.name,
        neighbours=tuple(neighbour(use.pid, use.bytes) for use in here if use.pid not in mine),
    )


def _purpose(pid: int, children: Children) -> str:
    """What the child is for that a process is or descends from."""
    found = (purpose for root, purpose in children.items() if is_ours(pid, {root}))
    return next((purpose for purpose in found if purpose != SERVER), SERVER)
