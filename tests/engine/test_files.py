"""A best version whose adapter is broken: the run rests until it is put back, then goes on."""

import shutil

import pytest
from sqlmodel import select

from data.tables import Control, Version
from tests.instance import OWNER, Instance, instance
from tests.outcome import differing, outcome

REQUESTED = select(Control.id).where(Control.status == "requested")


@pytest.fixture
def pawl(tmp_path):
    """A finished round whose candidate was promoted, to be extended by a second one."""
    with instance(tmp_path / "pawl") as one:
        one.start("r", rounds=1)
        assert one.wait("r").best_version == "candidate-1"
        yield one


def ask(pawl: Instance, action: str, **fields: object) -> None:
    """A control request, carried out."""
    control = Control(project_id="prj_local", run="r", action=action, author="owner", **fields)
    pawl.store.write(lambda s: s.add(control))
    while pawl.store.write(lambda s: s.exec(REQUESTED).first()):
        pawl.engine.tick()


def rest(pawl: Instance) -> str:
    """Why the run rests, once it does."""
    while (found := pawl.service.run_detail(OWNER, "r")).state != "paused":
        assert found.state == "running"
        pawl.engine.tick()
    return str(found.reason)


def test_a_broken_best_adapter_makes_the_run_rest_until_it_is_put_back(pawl, tmp_path):
    with instance(tmp_path / "other") as other:
        other.start("r", rounds=1)
        other.wait("r")
        ask(other, "extend", rounds=2)
        other.wait("r")
        undisturbed = outcome(other)

    with pawl.store.read() as session:
        best = session.exec(select(Version).where(Version.name == "candidate-1")).one()
    folder = pawl.home.checkpoints / str(best.adapter)
    file = folder / "adapter_config.json"
    whole = file.read_bytes()
    aside = shutil.copytree(folder, tmp_path / "backup")
    action: dict[str, object] = {"action": "extend", "rounds": 2}
    for cut in (0, 7, 60, len(whole) // 2, len(whole) - 1, None):
        file.write_bytes(whole[:cut]) if cut is not None else file.unlink()
        ask(pawl, **action)
        reason = rest(pawl)
        assert str(file) in reason and reason.endswith(
            f"Put {folder} back from a backup, then resume"
        )
        action = {"action": "resume"}
    shutil.rmtree(folder)
    ask(pawl, "resume")
    assert f"{folder} is missing" in rest(pawl)

    shutil.copytree(aside, folder)
    ask(pawl, "resume")
    assert pawl.wait("r").state == "finished"
    assert differing(outcome(pawl), undisturbed) == []
