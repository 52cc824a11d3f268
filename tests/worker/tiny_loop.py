"""A real loop on the tiny model: a whole round with the real worker in some ten seconds."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.shapes import RunDetail
from data.home import open_home
from data.tables import Control, Event, Step
from engine.types import ModelRef
from tests.instance import OWNER, Instance, instance
from tests.waiting import eventually

RUN = "tiny-1"


@contextmanager
def tiny_loop(home: Path, tiny: ModelRef) -> Iterator[Instance]:
    """An instance with a copy of the tiny model and a started engine; the run is started once."""
    lay_model(home, tiny)
    with instance(home) as pawl:
        pawl.engine.start()
        if not pawl.service.list_runs(OWNER).items:
            pawl.start(RUN, preset="smoke", base_model="tiny")
        yield pawl


def lay_model(home: Path, tiny: ModelRef) -> None:
    """Put a copy of the tiny model into a home, with the precision that it is used in."""
    model = open_home(home).models / "tiny"
    if not model.exists():
        shutil.copytree(tiny.path, model)
        (home / "precision-cpu.json").write_text('{"precision": "float32"}')


def detail(pawl: Instance) -> RunDetail:
    return pawl.service.run_detail(OWNER, RUN)


def rests(pawl: Instance, state: str = "paused") -> RunDetail:
    """The run once it is in that state."""
    return eventually(lambda: (found := detail(pawl)).state == state and found)


def resume(pawl: Instance) -> None:
    """Ask for it as a door does, and wait until it is carried out."""
    control = Control(project_id="prj_local", run=RUN, action="resume", author="owner")
    pawl.store.write(lambda s: s.add(control))
    eventually(lambda: not [row for row in pawl.rows(Control) if row.status == "requested"])


def is_at(pawl: Instance, step: str) -> bool:
    return any(row.step == step and row.status == "intent" for row in pawl.rows(Step))


def events(pawl: Instance) -> list[str]:
    return [event.text for event in pawl.rows(Event)]
