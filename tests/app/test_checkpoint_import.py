"""An adapter from elsewhere: taken in, listed, deployable, deleted, brought back."""

import json
import urllib.request
from pathlib import Path

import pytest
from sqlmodel import select

from app.administration import LOCAL_OWNER
from app.deployable import find_target
from app.endpoints import deploy
from app.errors import Conflict
from data.files import write_manifest
from data.home import Home
from data.store import Reader, Store
from data.tables import Version
from engine.models.registry import with_adapter
from engine.types import ModelRef
from tests.adapters import MODULES, RANK, lay_adapter
from tests.app.checkpoint_desk import Here
from tests.server.process import Server
from tests.server.test_administration import worked
from tests.worker.tiny_loop import lay_model


@pytest.fixture
def here(home: Home, tiny: ModelRef, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(home, tiny, capsys)


def test_an_adapter_is_taken_in_listed_and_deployable(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    folder = lay_adapter(tmp_path / "given", tiny)
    (folder / "README.md").write_text("mine")
    said = here.worked("import", str(folder), "--base", "tiny", "--name", "carry-tuned")
    assert f"Imported carry-tuned (rank {RANK} on {', '.join(sorted(MODULES))}" in said
    assert "Not taken: README.md." in said
    reference = said.split()[-1]
    assert "carry-tuned" in here.worked("list") and "imported" in here.worked("list")

    service = here.service()
    (item,) = service.checkpoints(LOCAL_OWNER).items
    assert reference == f"envloop://{item.job_id}/{item.checkpoint_id}"
    assert {file.name for file in item.files} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    assert service.checkpoints(LOCAL_OWNER, job=item.job_id).items == [item]
    job = service.job(LOCAL_OWNER, item.job_id)
    assert (job.type, job.status) == ("train", "completed")
    assert job.training is not None and job.training.tags["imported"] == "carry-tuned"
    assert job.training.checkpoint is not None and job.training.checkpoint.path == reference

    for spec in ({"inputs": {"checkpoint": reference}}, {"inputs": {"checkpoint": "carry-tuned"}}):
        with Reader(here.home.database).read() as session:
            target = find_target(session, LOCAL_OWNER, here.home, spec)
        assert (target.base_model, target.adapter) == ("tiny", item.checkpoint_id)
    for path in (reference, "carry-tuned", item.tinker_path):
        links = service.checkpoint_links(LOCAL_OWNER, "", path)
        assert links.checkpoint_id == item.checkpoint_id
        assert links.zip.endswith("&name=carry-tuned")


def test_a_version_of_weights_that_are_not_here_any_more_is_not_deployed(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    here.worked("import", str(lay_adapter(tmp_path / "given", tiny)), "--base", "tiny")
    with Reader(here.home.database).read() as session:
        name = session.exec(select(Version.name)).one()
    write_manifest(here.home.models / "tiny", {"origin": "the same files"})
    with Reader(here.home.database).read() as session:
        find_target(session, LOCAL_OWNER, here.home, {"version": name})
    (here.home.models / "tiny" / "NOTICE").write_text("other contents")
    write_manifest(here.home.models / "tiny")
    with Reader(here.home.database).read() as session, pytest.raises(Conflict, match="weights"):
        find_target(session, LOCAL_OWNER, here.home, {"version": name})


def test_what_was_taken_in_answers_otherwise_than_its_base(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    from engine.models.weights import load_base, take_fingerprint, wear

    here.worked("import", str(lay_adapter(tmp_path / "given", tiny)), "--base", "tiny")
    (folder,) = here.home.checkpoints.iterdir()
    loaded = load_base(tiny, "float32", "cpu")
    wear(loaded, with_adapter(tiny, folder))
    assert take_fingerprint(loaded.model) != loaded.fingerprint


def test_the_same_adapter_again_is_said_and_a_deleted_one_comes_back(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    words = ("import", str(lay_adapter(tmp_path / "given", tiny)), "--base", "tiny")
    here.worked(*words, "--name", "first")
    assert "here already: first, envloop://import-" in here.worked(*words, "--name", "second")
    other = str(lay_adapter(tmp_path / "other", tiny, seed=1))
    taken = here.refused("import", other, "--base", "tiny", "--name", "first")
    assert "--name: first is checkpoint" in taken
    assert "a base model here" in here.refused("import", other, "--base", "tiny", "--name", "tiny")
    assert "no name for" in here.refused("import", other, "--base", "tiny", "--name", "a/b")

    would = here.worked("delete", "first", "--dry-run")
    assert "Would delete first" in would and "Nothing was changed" in would
    assert "Deleted first" in here.worked("delete", "first")
    assert here.worked("list") == "No checkpoints yet.\n"
    assert "no checkpoint first" in here.refused("delete", "first")
    assert list(here.home.checkpoints.iterdir()) == []
    here.worked(*words, "--name", "back")
    assert "back" in here.worked("list")


def test_an_import_that_was_deleted_leaves_no_name_and_no_date_to_the_next(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    words = ("import", str(lay_adapter(tmp_path / "given", tiny)), "--base", "tiny")
    here.worked(*words, "--name", "back")
    service = here.service()
    (before,) = service.checkpoints(LOCAL_OWNER).items
    here.worked("delete", "back")
    here.worked(*words, "--name", "imp1")
    (item,) = service.checkpoints(LOCAL_OWNER).items
    assert item.tinker_path.endswith("/weights/imp1") and item.created_at > before.created_at
    job = service.job(LOCAL_OWNER, item.job_id)
    assert job.name == "imp1" and job.created_at > before.created_at
    assert job.training is not None and job.training.tags["imported"] == "imp1"
    said = here.worked(*words, "--name", "imp2")
    assert "here already: imp1" in said and "The name imp2 was not given to it." in said
    assert "no checkpoint back" in here.refused("delete", "back")
    assert here.worked("delete", "imp1").startswith("Deleted imp1 (")
    assert service.checkpoints(LOCAL_OWNER).items == []


def test_a_deployed_adapter_is_not_deleted(here: Here, tiny: ModelRef, tmp_path: Path) -> None:
    given = str(lay_adapter(tmp_path / "given", tiny))
    here.worked("import", given, "--base", "tiny", "--name", "mine")
    service = here.service()
    spec = {"version": "mine"}
    body = {"type": "inference", "request_id": "r-1", "spec": spec}
    store = Store(here.home.database)
    try:
        job = store.write(lambda s: deploy(s, LOCAL_OWNER, here.home, body)).job_id
    finally:
        store.close()
    refused = here.refused("delete", "mine")
    assert f"stays: is deployed, by job {job}" in refused
    assert service.checkpoints(LOCAL_OWNER).items


def test_a_config_that_names_another_base_is_told_when_the_shapes_fit(
    here: Here, tiny: ModelRef, tmp_path: Path
) -> None:
    named = lay_adapter(tmp_path / "given", tiny, config={"base_model_name_or_path": "lab/other"})
    said = here.worked("import", str(named), "--base", "tiny")
    assert "names lab/other as its base" in said and "only its answers can show" in said


def test_beside_a_server_it_is_there_at_once(tmp_path: Path, tiny: ModelRef) -> None:
    lay_model(tmp_path / "home", tiny)
    server = Server(tmp_path / "home")
    try:
        given = str(lay_adapter(tmp_path / "given", tiny))
        worked(server.home.path, "checkpoint", "import", given, "--base", "tiny", "--name", "mine")
        key = server.home.owner_key.read_text().strip()
        request = urllib.request.Request(f"{server.url}/v1/job/checkpoints")
        request.add_header("Authorization", f"Bearer {key}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            (item,) = json.load(answer)["items"]
        assert item["tinker_path"].endswith("/weights/mine")
        assert "Deleted mine" in worked(server.home.path, "checkpoint", "delete", "mine")
    finally:
        server.close()
