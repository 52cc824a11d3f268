"""The sandbox image: made from a folder or a base by digest, tried before it counts, and told."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.sandbox import image
from engine.sandbox.docker_engine import IMAGE, DockerEngine, SandboxUnavailable
from engine.sandbox.image import build_from_folder, build_from_image, check_image, made_how
from engine.sandbox.pool import WarmPool
from tests.server.process import ROOT, environment_for

NAME = "pawl-try:1"


@pytest.fixture
def folder(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[Path]:
    """A root file system with a name, and no Python."""
    (tmp_path / "usr").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('NAME="X"\nPRETTY_NAME="Some Linux 3"\n')
    (tmp_path / "proc/1").mkdir(parents=True)
    yield tmp_path
    docker_engine._client.images.remove(NAME, force=True)


def test_an_image_without_python_is_refused_and_told_where_it_came_from(
    docker_engine: DockerEngine, folder: Path
) -> None:
    told: list[str] = []
    with pytest.raises(SandboxUnavailable, match="does not run Python as needed"):
        build_from_folder(folder, told.append, NAME)
    assert told == [f"packing {folder}", "handing it to Docker"]
    api = docker_engine._client.api
    assert api.containers(all=True, filters={"ancestor": NAME}) == [], "the one that tried is gone"
    made = docker_engine._client.images.get(NAME)
    assert made_how(made) == "from a root file system, Some Linux 3"


def test_an_image_whose_python_is_too_old_is_refused(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as old:
        old.setattr(sys, "version_info", (3, 9, 2))
        exec(image.CHECK, {})  # noqa: S102  as such an image's own Python would
    said = capsys.readouterr().out.encode()
    monkeypatch.setattr(image, "_output", lambda *_: said)
    with pytest.raises(SandboxUnavailable, match=r"no Python 3\.10 or newer"):
        check_image()


def test_a_folder_that_cannot_be_packed_or_taken_is_said_with_the_mend(
    docker_engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "usr").mkdir()
    with pytest.raises(SandboxUnavailable, match="Docker does not take .*invalid reference"):
        build_from_folder(tmp_path, print, "Not A Name:1")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "root/.bashrc")

    monkeypatch.setattr(tarfile.TarFile, "add", refuse)
    with pytest.raises(SandboxUnavailable, match=r"root/\.bashrc.*as root"):
        build_from_folder(tmp_path, print, NAME)


def test_a_folder_or_base_that_cannot_be_one_is_refused_before_anything_is_done(
    tmp_path: Path,
) -> None:
    with pytest.raises(SandboxUnavailable, match="no root file system"):
        build_from_folder(tmp_path, print)
    with pytest.raises(SandboxUnavailable, match="by its digest"):
        build_from_image("python:3.11", print)


def sandbox(home: Path, *words: str, **environment: str) -> tuple[int, str]:
    """Exit code of `run.py sandbox`, and what it printed."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "run.py"), "sandbox", *words],
        env={**environment_for(home), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_command_says_which_engine_and_image_there_are(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    code, told = sandbox(tmp_path, "status")
    assert code == 0 and IMAGE in told, told
    assert docker_engine.image.removeprefix("sha256:")[:12] in told
    assert docker_engine.receipt("warm").engine in told


def test_an_evaluation_can_keep_how_its_cases_were_isolated(
    docker_engine: DockerEngine, pool: WarmPool
) -> None:
    kept = pool.receipt()
    assert json.loads(json.dumps(kept)) == kept
    assert kept["image"] == check_image() == docker_engine.image
    assert kept["runtime"] and kept["engine"][0].isdigit()
    assert kept["flags"] != docker_engine.receipt("one-shot").flags


def test_without_an_engine_the_command_says_what_to_do(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "usr")
    nowhere = f"unix://{tmp_path}/none.sock"
    for words in (["status"], ["build", "--rootfs", str(tmp_path)], ["build"]):
        code, told = sandbox(tmp_path, *words, DOCKER_HOST=nowhere)
        assert code == 1 and "install Docker" in told and "Traceback" not in told
