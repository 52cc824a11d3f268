"""Stories on a file system of 20 MB: `python -m tests.small_disk STORY FOLDER`, run by `tell`."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from data.files import verify_manifest
from data.store import Reader
from data.tables import Control, Event, Step
from engine import driver
from engine.driver import INTERRUPTED
from engine.errors import DiskFull
from engine.models.registry import find_base
from engine.models.worker_engine import WorkerEngine
from engine.scheduler import STOP_SECONDS
from engine.types import TrainProgress
from tests.instance import OWNER, Instance, instance
from tests.outcome import differing, money, outcome
from tests.waiting import eventually
from tests.worker.samples import job, never

ROOT = Path(__file__).parent.parent
LEAST = 300_000  # what must be free here before a phase begins
MOUNT = 'mount -t tmpfs -o size=20m tmpfs "$0" && exec "$@"'


def tell(story: str, folder: Path, *arguments: str) -> None:
    """Run a story with `folder` on a disk of its own; skips where nothing can be mounted."""
    alone = next((words for words in (["-m"], ["-rm"]) if _may_mount(words, folder)), None)
    if alone is None:
        pytest.skip("no file system can be mounted here, neither as root nor with unshare -rm")
    told = [sys.executable, "-m", "tests.small_disk", story, str(folder), *arguments]
    command = ["unshare", *alone, "sh", "-c", MOUNT, str(folder), *told]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _may_mount(words: list[str], folder: Path) -> bool:
    command = ["unshare", *words, "sh", "-c", MOUNT, str(folder), "true"]
    return (
        shutil.which("unshare") is not None
        and not subprocess.run(command, capture_output=True, check=False).returncode
    )


def fills_up(home: Path) -> None:
    """A run meets a full disk half-way, rests, and ends as if nothing had happened."""
    with tempfile.TemporaryDirectory() as roomy, instance(Path(roomy), least_free=LEAST) as pawl:
        pawl.start("r")
        pawl.wait("r")
        undisturbed = outcome(pawl)

    with instance(home, least_free=LEAST, pace_seconds=0.001) as pawl:
        pawl.engine.start()
        pawl.start("r")
        eventually(lambda: has_begun(pawl, "collect"))
        fill(home)
        assert says_full(paused(pawl), home)
        assert pawl.service.device(OWNER).run is None, "the device is still held"
        assert integrity(pawl) == "ok"
        assert not [step for step in pawl.rows(Step) if step.status == "intent"]

        ask(pawl, "resume")  # too early: it rests again, for the same reason
        eventually(lambda: pawl.rows(Control)[0].status == "done")
        assert says_full(paused(pawl), home)

        (home / "ballast").unlink()
        ask(pawl, "resume")
        assert pawl.wait("r").state == "finished"
        assert differing(outcome(pawl), undisturbed) == []
        assert integrity(pawl) == "ok"
        assert (home / "spare").exists(), "what was given up for the pause is kept again"


def in_a_dry_run(home: Path) -> None:
    """Paid calls under way when the disk fills up are settled, none is paid for twice unsaid."""
    models = {"operator_model": "sim/operator", "teacher_model": "sim/teacher"}
    with instance(home, least_free=LEAST, pace_seconds=0.01) as pawl:
        pawl.engine.start()
        pawl.start("r", dry_run=True, rounds=1, **models)
        eventually(lambda: has_begun(pawl, "diagnose"))
        fill(home)
        assert says_full(paused(pawl), home)
        at_rest = money(pawl)
        assert at_rest["open"] == at_rest["reserved"] == at_rest["sent"] == 0
        (home / "ballast").unlink()
        ask(pawl, "resume")
        assert pawl.wait("r").state == "finished"
        spend = money(pawl)
        assert spend["open"] == spend["reserved"] == spend["sent"] == 0
        assert spend["answered"] > at_rest["answered"]


def begins_nothing(home: Path) -> None:
    """On a disk that is nearly full a run is not begun, and says why; it is when there is room."""
    with instance(home, least_free=LEAST) as pawl:
        (home / "ballast").write_bytes(bytes(20_200_000 - used(home)))
        pawl.start("r", rounds=1)
        found = paused(pawl)
        assert " MB free of 21.0 MB: free some space, then resume" in found.reason
        assert pawl.rows(Step) == []
        (home / "ballast").unlink()
        ask(pawl, "resume")
        assert pawl.wait("r").state == "finished"


def fill_without_a_spare(pawl: Instance, home: Path) -> None:
    """Fill the disk in the middle of a run so that not even its pause can be written."""
    pawl.engine.start()
    pawl.start("r", rounds=1)
    eventually(lambda: has_begun(pawl, "collect"))
    (home / "spare").unlink()
    fill(home)
    eventually(lambda: fails(pawl))


def not_even_the_pause(home: Path) -> None:
    """When the database itself cannot be written, the engine waits, calmly, until it can."""
    driver.CALM_SECONDS = 1.0
    with instance(home, least_free=LEAST, pace_seconds=0.001) as pawl:
        fill_without_a_spare(pawl, home)
        before = time.process_time()
        time.sleep(3)
        assert time.process_time() - before < 1.0, "it spins"
        assert detail(pawl).state == "running"
        (home / "ballast").unlink()
        assert says_full(paused(pawl), home)
        ask(pawl, "resume")
        assert pawl.wait("r").state == "finished"


def stops_on_a_full_disk(home: Path) -> None:
    """A server ends in time on a full disk, and the next one carries the run on."""
    with instance(home, least_free=LEAST, pace_seconds=0.001) as pawl:
        fill_without_a_spare(pawl, home)
        began = time.monotonic()
        pawl.engine.stop()
        assert time.monotonic() - began < STOP_SECONDS, "it gave up waiting"
    (home / "ballast").unlink()
    with instance(home, least_free=LEAST) as pawl:
        assert pawl.wait("r").state == "finished"
        assert integrity(pawl) == "ok"


def last_good_checkpoint(folder: Path, base: str) -> None:
    """A training whose checkpoint finds no room keeps the one before, and goes on from it."""
    model = find_base(Path(base).parent, Path(base).name)
    kind = (sys.executable, "-m", "tests.worker.hard_times", "small_disk", str(folder))
    engine = WorkerEngine(log_dir=folder, precision="float32", threads=1, command=kind)
    training = job(folder, model, rows=40, checkpoint_seconds=0.0)

    def fill_at_three(progress: TrainProgress) -> None:
        if progress.step == 3:
            fill(folder)

    try:
        with pytest.raises(DiskFull, match=r"state has 0\.0 MB free .* then resume"):
            engine.train(training, fill_at_three, never)
        kept = sorted(Path(training.state_dir).iterdir())
        assert [path.name for path in kept][-1] >= "step-000003"
        assert not [path for path in kept if ".tmp-" in path.name]
        for path in kept:
            verify_manifest(path)
        (folder / "ballast").unlink()
        result = engine.train(training, lambda progress: None, never)
        assert result.resumed_from >= 3 and result.steps == 10
    finally:
        engine.close()


def fill(folder: Path) -> None:
    """A ballast file that takes every byte there is."""
    with open(folder / "ballast", "wb", buffering=0) as file:
        for size in (1_000_000, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def used(folder: Path) -> int:
    return shutil.disk_usage(folder).used


def detail(pawl: Instance) -> Any:
    return pawl.service.run_detail(OWNER, "r")


def paused(pawl: Instance) -> Any:
    """The run once it rests."""

    def rests() -> bool:
        pawl.engine.tick()
        return detail(pawl).state == "paused"

    eventually(rests)
    assert detail(pawl).reason != INTERRUPTED
    return detail(pawl)


def ask(pawl: Instance, action: str) -> None:
    control = Control(project_id="prj_local", run="r", action=action, author="owner")
    pawl.store.write(lambda s: s.add(control))


def has_begun(pawl: Instance, name: str) -> bool:
    return any(step.step == name for step in pawl.rows(Step))


def fails(pawl: Instance) -> bool:
    """Whether nothing can be written any more."""
    try:
        event = Event(run="x", seq=time.monotonic_ns(), kind="message", text="." * 5000)
        pawl.store.write(lambda s: s.add(event))
        return False
    except OperationalError:
        return True


def says_full(run: Any, home: Path) -> bool:
    """Whether the reason names the folder, what is free there, and what to do."""
    said = rf"the disk is (\d+% )?full: {home} has [01]\.\d MB free of 21\.0 MB: free some space, "
    return re.fullmatch(said + "then resume", run.reason) is not None


def integrity(pawl: Instance) -> str:
    reader = Reader(pawl.home.database)
    with reader.read() as session:
        found = str(session.connection().exec_driver_sql("PRAGMA integrity_check").scalar())
    reader.close()
    return found


STORIES = {
    story.__name__: story
    for story in (
        fills_up,
        in_a_dry_run,
        begins_nothing,
        not_even_the_pause,
        stops_on_a_full_disk,
        last_good_checkpoint,
    )
}

if __name__ == "__main__":
    STORIES[sys.argv[1]](Path(sys.argv[2]).resolve(), *sys.argv[3:])
