"""What `run.py cassette` does: a run into a file, and a file into a console that only shows."""

import math
import sqlite3
import threading
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from sqlmodel import Session

from app.access import PROJECT, WORKSPACE
from app.opened import Opened
from app.people import OWNER
from app.service import Service
from data import replay
from data.cassette import Cassette, CassetteRefused, read_cassette, write_cassette
from data.home import Home
from data.recording import record_run
from data.sizes import as_text
from data.store import Reader, Store
from data.tables import SCHEMA_VERSION, Project, User


def export(home: Home, run: str, file: Path) -> str:
    """Write a finished run's cassette; what was done, in words. Only reads the home.

    CassetteRefused when there is no such run, it goes on, or the file is there already.
    """
    _check_source(home)
    if file.exists():
        raise CassetteRefused(f"{file} is there already: choose another name")
    reader = Reader(home.database)
    try:
        with reader.read() as session:
            cassette = record_run(session, run, home)
    finally:
        reader.close()
    size = write_cassette(cassette, file)
    rows = sum(len(some) for some in cassette.rows.values())
    return (
        f"Cassette {file}: {rows:,} rows, {as_text(size)}.\n"
        "Without keys, secrets, sealed tasks, weights and this machine's paths. What people wrote "
        "is in it:\nread it before you hand it on.\n"
        f"Play it with: python3 run.py cassette play {file} --speed 10"
    )


def load(file: Path) -> Cassette:
    """A cassette that fits this Pawl; CassetteRefused with what does not."""
    return read_cassette(file, PROJECT, WORKSPACE)


def begin_replay(
    recorded: Cassette, speed: float, pawl: Opened, ends: ExitStack
) -> tuple[Service, "Player"]:
    """A service that only shows, and a player in the engine's place; `ends` stops them."""
    player = Player(pawl.store, recorded, speed)
    ends.callback(player.stop)
    reader = Reader(pawl.home.database)  # whoever asks: what was recorded alone is written
    ends.callback(reader.close)
    return Service(reader, title(recorded, speed)), player


class Player:
    """Stands where the engine does: writes what was recorded, and takes up no work."""

    def __init__(self, store: Store, cassette: Cassette, speed: float) -> None:
        self._stop = threading.Event()
        label = {"of": cassette.run, "recorded": cassette.made, "speed": speed}
        store.write(partial(_make_ready, title(cassette, speed)))
        self._thread = threading.Thread(
            target=replay.play,
            args=(store, replay.frames(cassette, label), speed, self._stop),
            name="replay",
            daemon=True,
        )

    def start(self) -> None:
        """Begin to play."""
        self._thread.start()

    def interrupt(self) -> None:
        """Write nothing more; returns at once."""
        self._stop.set()

    def stop(self) -> None:
        """Interrupt, and wait for the last write."""
        self.interrupt()
        if self._thread.is_alive():
            self._thread.join()

    def beat_age(self) -> float:
        """0 until it is stopped: nothing is waited for."""
        return math.inf if self._stop.is_set() else 0.0


def title(cassette: Cassette, speed: float) -> str:
    """What stands on every page of a replay."""
    return f"Replay of {cassette.run}, {speed:g}×"


def _make_ready(name: str, session: Session) -> None:
    """Who looks at a replay may look, and nothing else."""
    session.get_one(Project, PROJECT).name = name
    session.get_one(User, OWNER).role = "viewer"


def _check_source(home: Home) -> None:
    if not home.database.is_file():
        raise CassetteRefused(f"{home.path} has no database yet: no run to export (--home)")
    try:
        with closing(sqlite3.connect(f"{home.database.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        raise CassetteRefused(f"{home.database} cannot be read: {error}") from None
    if found != SCHEMA_VERSION:
        raise CassetteRefused(
            f"{home.path} is of schema {found}, this Pawl has {SCHEMA_VERSION}: "
            "start python3 run.py once, which updates it"
        )
