"""Base models by command: listed, refused at the door, and kept while somebody needs them."""

from pathlib import Path

import pytest

from app.bases import commands
from app.bases_cli import run_command
from app.options import parse
from data.files import write_manifest
from data.home import Home, open_home
from data.store import Store
from data.tables import Checkpoint, Project, Run
from engine.models.base_files import BaseFiles

HEADER = b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = open_home(tmp_path / "home")
    folder = made.models / "mine"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "model.safetensors").write_bytes(
        len(HEADER).to_bytes(8, "little") + HEADER + bytes(16)
    )
    write_manifest(folder, {"source": "hub lab/mine at 0123"})
    return made


def run(home: Home, *words: str) -> int:
    return run_command(parse(["model", *words]), home, BaseFiles(models=home.models), commands)


def test_bases_are_listed_with_where_they_came_from(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = home.models / ".downloads" / f"lab--big--{'0' * 40}"
    broken.mkdir(parents=True)
    (broken / ".model.safetensors.part").write_bytes(bytes(2000))
    killed = home.models / ".downloads" / "adding-large"
    killed.mkdir()
    (killed / "model.safetensors").write_bytes(bytes(3000))
    assert run(home, "list-bases") == 0
    told = capsys.readouterr().out
    assert "mine" in told and "hub lab/mine at 0123" in told
    assert "2 kB of lab/big at 0000" in told and f"or delete {broken}" in told
    assert "3 kB of large were copied" in told and f"or delete {killed}" in told


def test_what_is_refused_is_said_and_nothing_is_added(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "pytorch_model.bin").write_bytes(b"x")
    for words, says in (
        (("add-base", "new", "--path", str(given)), "pytorch_model.bin is not safetensors"),
        (("add-base", "mine", "--path", str(given)), "a base model mine already"),
        (("add-base", "new", "--hub", "lab/new"), "--revision: give the full SHA"),
        (("add-base", "new", "--hub", "lab/new", "--revision", "main"), "not a full commit SHA"),
        (("add-base", "new", "--path", "/x", "--revision", "0"), "belong to --hub"),
        (("remove-base", "other"), "there is no base model other; there are: mine"),
    ):
        assert run(home, *words) == 1, words
        assert says in capsys.readouterr().err, words
    assert [one["name"] for one in BaseFiles(models=home.models).list_all()] == ["mine"]


def test_a_base_stays_while_a_run_or_an_adapter_needs_it(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(home.database)
    store.write(lambda s: s.add(Project(id="prj_local", workspace_id="w", name="local")))
    store.write(lambda s: s.add(_run("starting")))
    store.close()
    assert run(home, "remove-base", "mine") == 1
    assert "run r uses mine: stop it first" in capsys.readouterr().err
    store = Store(home.database)
    store.write(lambda s: s.merge(_run("finished")))
    store.write(lambda s: s.add(_checkpoint()))
    store.close()
    assert run(home, "remove-base", "mine") == 1
    assert "1 adapter was trained on mine" in capsys.readouterr().err
    assert run(home, "remove-base", "mine", "--yes") == 0
    assert "is removed" in capsys.readouterr().out and not (home.models / "mine").exists()


def _run(state: str) -> Run:
    return Run(
        id="r",
        project_id="prj_local",
        workspace_id="w",
        actor="owner",
        brief="b",
        domain="arith",
        mode="live",
        state=state,
        base_model="mine",
        rounds_target=1,
        secret="00",
    )


def _checkpoint() -> Checkpoint:
    return Checkpoint(
        id="c", project_id="prj_local", base_model="mine", base_revision="0", size_bytes=1
    )
