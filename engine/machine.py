"""The machine that a server has: where it trains and serves, and what may begin there now."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from data.home import Home
from data.job_places import ROWS, jobs_folder
from data.store import Reader
from data.tables import Checkpoint, Job, Run
from engine.facts import Facts, JobFacts, Library
from engine.models import simulated
from engine.needs import Need, rows_need, run_need
from engine.serving.places import Places, check_places, normal, read_places
from engine.spots import Spots
from engine.timetable import (
    MARGIN,
    SHARE,
    WAIT,
    may_serve,
    may_train,
    never_fits,
    read_hours_set,
    why_not_now,
    why_waits,
)

LATEST = 50  # trainings that are looked through for one that was measured


class Machine:
    """Answers where, when and how much; `usual` is the device where the settings name none.

    `make_room` puts what serves to sleep before a phase that does not fit beside it, `rest_worker`
    ends an idle worker before a process that serves and does not fit beside that.
    """

    def __init__(self, store: Reader, home: Home, library: Library, usual: str) -> None:
        self._store, self._home, self._library, self._usual = store, home, library, normal(usual)
        self.make_room: Callable[[], None] = _nothing
        self.rest_worker: Callable[[], None] = _nothing
        self._spots = Spots(store)
        self._phases: dict[str, tuple[str, int]] = {}  # device -> who has it, bytes they need
        self._waiting: dict[str, Need | None] = {}  # by training that waits

    def places(self) -> Places:
        """Where this server trains and serves; NeedsMending when a device that is set is not here."""
        found = self._read_places()
        if found != Places(train_device=self._usual, serve_device=self._usual):
            check_places(found, self.devices())
        return found

    def train_device(self) -> str:
        """The device that is trained on, by torch's name."""
        return self.places().train_device

    def devices(self) -> list[str]:
        """Every device of this machine by torch's name, the cards first."""
        return list(self._spots.all())

    def why_closed(self) -> str:
        """What a round waits for by the hours that are set; "" when it may start."""
        with self._store.read() as session:
            return why_not_now(read_hours_set(session))

    def why_no_room(self, work: Run | Job) -> str | None:
        """Why a run or a training by hand has to wait for memory, with who holds it; None when it
        need not."""
        need = self._need_of_waiting(work) if isinstance(work, Job) else self.need_of_run(work)
        if need is None:
            return None
        spot = self._spots.one(self._read_places().train_device)
        if may_train(need.least, spot.room) != WAIT:
            return None
        if isinstance(work, Job) and never_fits(need.least, spot.room):
            return None  # an upper bound, and no door has refused it: the training shows it
        return why_waits(need.least, spot.room, spot.neighbours or self._spots.large())

    @contextmanager
    def phase(self, work: Facts, name: str) -> Iterator[str]:
        """A phase on the training device, which comes back: what serves there and does not fit
        beside it sleeps, and calls that would wake it are told who has the device."""
        places, wanted = self.places(), self._wanted(work, name)
        device = places.train_device
        room = self._spots.one(device, fresh=wanted != 0).room
        promised = room.total if wanted is None else wanted
        # First of all, so that no call wakes anything while room is made.
        self._phases[device] = (f"{work.id} ({name.replace('_', ' ')})", promised)
        try:
            if places.shared and may_train(wanted, room) != SHARE:
                self.make_room()
            yield device
        finally:
            self._phases.pop(device, None)

    def may_serve(self, need: int | None = None) -> str | None:
        """Why nothing may begin to serve now; None when it may. `need` in bytes over all the cards
        that serve, None: unknown."""
        places = self.places()
        each = None if need is None else need // places.tensor_parallel
        reasons = (self._may_serve_on(device, each) for device in places.serve_devices)
        return next((why for why in reasons if why is not None), None)

    def _may_serve_on(self, device: str, need: int | None) -> str | None:
        room = self._spots.one(device, fresh=True).room
        holder, promised = self._phases.get(device, (None, 0))
        room = replace(room, promised=max(0, promised - room.worker))
        why = may_serve(need, room, holder)
        idle = replace(room, free=room.free + room.worker, worker=0)
        if why and holder is None and may_serve(need, idle, None) is None:
            self.rest_worker()
            return None
        return why

    def serving_places(self, need: int | None) -> Places:
        """The places for a process that would take all of a card that it can get: what training is
        going to need there is left to it, unless too little for serving, `need` bytes, is left."""
        places = self.places()
        if not places.shared or places.serve_device == "cpu":
            return places
        room = self._spots.one(places.train_device, fresh=True).room
        _, promised = self._phases.get(places.train_device, (None, 0))
        spare = max(0, max([promised, *self._expected()]) - room.worker)
        fits = spare + (need or 0) // places.tensor_parallel + MARGIN <= room.free
        return replace(places, spare_bytes=spare if fits else 0)

    def _expected(self) -> list[int]:
        """What each live run that is not over is going to need."""
        query = select(Run).where(
            Run.mode == "live", col(Run.state).in_(("starting", "running", "paused"))
        )
        with self._store.read() as session:
            runs = list(session.exec(query))
        needs = [self.need_of_run(run) for run in runs]
        return [need.expected for need in needs if need is not None]

    def refuses(self, domain: str, base_model: str, config: dict[str, Any]) -> str | None:
        """Why a run like that can never begin here, with the figures; None when it can."""
        need = self.need(domain, base_model, config)
        if need is None:
            return None
        return never_fits(need.least, self._spots.one(self._read_places().train_device).room)

    def ahead(self, domain: str, base_model: str, config: dict[str, Any]) -> dict[str, Any] | None:
        """What a run like that takes, in bytes, beside what its device has; None: nobody knows."""
        need = self.need(domain, base_model, config)
        if need is None:
            return None
        room = self._spots.one(self._read_places().train_device).room
        free = room.free + room.worker + room.serving
        return {**asdict(need), "device": room.device, "total": room.total, "free": free}

    def look(self) -> list[dict[str, Any]]:
        """Every device in use: names, bytes total and free, other people's processes."""
        places = self._read_places()
        used = {places.train_device, *places.serve_devices}
        return [
            {
                "device": name,
                "name": spot.label,
                "total": spot.room.total,
                "free": spot.room.free,
                "others": [asdict(one) for one in spot.neighbours],
            }
            for name, spot in self._spots.all().items()
            if name in used
        ]

    def need_of_run(self, run: Run) -> Need | None:
        """What a run takes."""
        return self.need(run.domain, run.base_model, run.config)

    def need(self, domain: str, base_model: str, config: dict[str, Any]) -> Need | None:
        """What a run like that takes, as estimated, and as measured of the last one like it."""
        kind, precision = self._kind()
        models = self._home.models
        try:
            found = run_need(models, self._library, domain, base_model, config, kind, precision)
        except (ValueError, KeyError):  # its own phases say what of its settings does not fit
            return None
        if found is None:
            return None
        with self._store.read() as session:
            peak, run = measured(session, base_model, config.get("preset", "default"), kind)
        least = found.least if peak is None else min(found.least, peak)
        return replace(found, least=least, measured=peak, measured_in=run)

    def _wanted(self, work: Facts, phase: str) -> int | None:
        """Bytes that a phase may come to hold; None: nobody knows."""
        if work.base_model in simulated.MODELS:
            return 0
        if isinstance(work, JobFacts):
            need = self._need_of_rows(work.spec, work.folder)
        else:
            with self._store.read() as session:
                row = session.get_one(Run, work.id)
            need = self.need_of_run(row)
        if need is None:
            return None
        return need.expected if phase == "train" else need.least

    def _need_of_waiting(self, job: Job) -> Need | None:
        """What a training that waits takes; its rows are read once."""
        if job.id not in self._waiting:
            folder = jobs_folder(self._home) / job.id
            self._waiting[job.id] = self._need_of_rows(job.spec, folder)
        return self._waiting[job.id]

    def _need_of_rows(self, spec: Mapping[str, Any], folder: Path) -> Need | None:
        """What a training by hand takes, of which the spec and the folder are given."""
        kind, precision = self._kind()
        try:
            lora, base = spec.get("lora") or {}, spec["base_model"]
            return rows_need(self._home.models, base, lora, folder / ROWS, kind, precision)
        except (ValueError, KeyError, TypeError, OSError):  # the job itself says what is wrong
            return None

    def _kind(self) -> tuple[str, str]:
        """What is trained on, "cpu" or "cuda", and the precision that is reckoned with."""
        kind = self._read_places().train_device.partition(":")[0]
        return kind, "float32" if kind == "cpu" else "bfloat16"

    def _read_places(self) -> Places:
        with self._store.read() as session:
            return read_places(session, self._usual)


def measured(
    session: Session, base_model: str, preset: str, kind: str
) -> tuple[int | None, str | None]:
    """The most memory that the last training of that base and preset took on that kind of device,
    and in which run."""
    query = (
        select(Checkpoint.training, Run.id, Run.config)
        .join(Run, col(Run.id) == col(Checkpoint.run))
        .where(Checkpoint.base_model == base_model)
        .order_by(col(Checkpoint.created_at).desc())
        .limit(LATEST)
    )
    for training, run, config in session.exec(query):
        peak = training.get("peak_bytes") if training.get("peak_on") == kind else None
        if peak and config.get("preset", "default") == preset:
            return int(peak), run
    return None, None


def _nothing() -> None:
    """Where nothing serves, nothing has to sleep."""
