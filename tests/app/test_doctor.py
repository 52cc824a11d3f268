"""What the doctor says of a machine, with small twins of other people's commands on the PATH."""

import contextlib
import importlib.metadata
import json
import socket
from pathlib import Path

import pytest

from app import doctor
from app.doctor import GB
from data.disk import Room
from data.engines import engine_setting
from data.home import Home, HomeLock, open_home
from data.store import Store
from data.tables import Setting
from engine.sandbox.docker_engine import IMAGE

CARD = "NVIDIA H200, 143771 MiB, 580.95.05"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that commands are found in."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def twin(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_missing_model_is_named_as_what_to_mend_and_the_rest_is_still_told(
    tmp_path: Path,
) -> None:
    checks = doctor.report(tmp_path, tmp_path / "none.gguf", "0" * 64, range(8710, 8730))
    text = list(doctor.lines(checks))
    assert text[-1] == "To mend before Pawl can run: Model."
    assert any(line.startswith("x Model") and "none.gguf is missing" in line for line in text)
    assert any(line.startswith("+ Python") for line in text)
    names = {check.name for check in checks}
    assert {"Machine", "GPU", "Docker", "Sandbox", "vLLM", "Disk", "Port"} <= names


def test_a_damaged_model_file_is_found_by_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    found = doctor.check_model(file, "0" * 64)
    assert (found.state, found.mend is not None) == ("broken", True)
    assert "damaged" in found.text


@pytest.mark.parametrize(
    ("script", "state", "text", "mend"),
    [
        (None, "note", "docker is not installed", "install docker.io and start dockerd"),
        (
            "echo 'Cannot connect to the Docker daemon' >&2; exit 1",
            "note",
            "Cannot connect",
            "start",
        ),
        (
            "echo 'permission denied at the socket' >&2; exit 1",
            "note",
            "permission",
            "group docker",
        ),
        ("echo 28.2.2", "ok", "engine 28.2.2", None),
    ],
)
def test_docker_is_told_with_its_own_words_and_the_mend_for_them(
    path: Path, script: str | None, state: str, text: str, mend: str | None
) -> None:
    if script:
        twin(path, "docker", script)
    found = doctor.check_docker()
    assert found.state == state and text in found.text
    assert (mend or "") in (found.mend or "") and bool(mend) == bool(found.mend)


def test_docker_is_asked_where_sandboxes_look_for_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line alone would follow its own context, and tell of another engine."""
    twin(path, "docker", 'echo "$1 $2"')
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert doctor.check_docker().text == "engine --host unix:///var/run/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.9:2375")
    assert doctor.check_docker().text == "engine --host tcp://10.0.0.9:2375"
    assert "tcp://10.0.0.9:2375" in doctor.check_sandbox(IMAGE, engine_answers=True).text
    twin(path, "docker", "echo 'Cannot connect' >&2; exit 1")
    mend = doctor.check_docker().mend or ""
    assert mend.endswith("or unset DOCKER_HOST, which says tcp://10.0.0.9:2375")


@pytest.mark.parametrize(
    ("script", "state", "text", "mend"),
    [
        ("echo 'Error: No such image: pawl-sandbox:1' >&2; exit 1", "note", "No such", "build"),
        ("echo 'sha256:46a93e4493ef00 from a folder []'", "ok", "46a93e4493ef, from a folder", ""),
        ("echo 'sha256:46a93e4493ef00  [python@sha256:a3]'", "ok", "[python@sha256:a3]", ""),
        ("echo 'sha256:46a93e4493ef00  []'", "ok", "made by hand", ""),
    ],
)
def test_the_sandbox_image_is_told_with_how_it_was_made(
    path: Path, script: str, state: str, text: str, mend: str
) -> None:
    twin(path, "docker", script)
    assert doctor.SANDBOX_IMAGE == IMAGE
    found = doctor.check_sandbox(IMAGE, engine_answers=True)
    assert found.state == state and text in found.text and mend in (found.mend or "")
    found = doctor.check_sandbox(IMAGE, engine_answers=False)
    assert (found.state, found.mend) == ("note", None) and "engine first" in found.text


def test_a_card_counts_only_with_a_torch_that_can_use_it(path: Path) -> None:
    twin(path, "nvidia-smi", f"echo '{CARD}'")
    found = doctor.check_gpu()
    usable = not importlib.metadata.version("torch").endswith("+cpu")
    assert CARD in found.text
    assert found.state == ("ok" if usable else "note")
    assert usable or "CUDA" in (found.mend or "")


def test_without_a_card_the_processor_does_the_work(path: Path) -> None:
    if doctor.has_nvidia_card():
        pytest.skip("this machine has an NVIDIA card")
    assert doctor.check_gpu().text == "none: models run on the processor"


def test_vllm_is_asked_through_the_interpreter_of_its_environment(path: Path) -> None:
    twin(path, "python", "echo 0.32.0")
    assert doctor.check_vllm(path / "python").state == "ok"
    assert doctor.check_vllm(path / "gone").state == "note"


@pytest.mark.parametrize(
    ("setting", "installed", "gpu", "state", "text"),
    [
        ("", False, False, "note", "not installed; the worker answers: vLLM is not installed"),
        ("auto", True, False, "ok", "the worker answers: without a GPU"),
        ("auto", True, True, "ok", "vLLM answers: it is installed and there is a GPU"),
        ("worker", True, True, "ok", "the worker answers: the setting engine says so"),
        ("vllm", True, False, "ok", "vLLM answers: the setting engine says so"),
        ("vllm", False, True, "broken", "nothing answers until it is installed"),
    ],
)
def test_which_engine_answers_is_told_with_the_reason(
    path: Path, setting: str, installed: bool, gpu: bool, state: str, text: str
) -> None:
    twin(path, "python", "echo 0.32.0")
    found = doctor.check_vllm(path / "python" if installed else None, setting, gpu)
    assert found.state == state and text in found.text
    assert installed or "run.py install vllm" in (found.mend or "")


def test_the_setting_is_read_from_the_home(tmp_path: Path, path: Path) -> None:
    with contextlib.closing(Store(tmp_path / "pawl.db")) as store:
        assert engine_setting(tmp_path / "pawl.db") == ""
        store.write(lambda s: s.add(Setting(name="engine", value="vllm")))
    checks = doctor.report(tmp_path, tmp_path / "none.gguf", "0" * 64, range(8710, 8730))
    (found,) = [check for check in checks if check.name == "vLLM"]
    assert "the setting engine says so" in found.text


def test_a_home_that_cannot_be_made_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = doctor.check_disk(tmp_path / "file" / "home")
    assert found.state == "broken" and "--home" in (found.mend or "")


def test_a_disk_that_fills_up_is_told_before_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for share, state in ((79, "ok"), (81, "note")):
        found = Room(total=100 * GB, used=share * GB, free=(100 - share) * GB)
        monkeypatch.setattr(doctor, "room", lambda _, found=found: found)
        assert doctor.check_disk(tmp_path).state == state
    text, mend = doctor.check_disk(tmp_path).text, doctor.check_disk(tmp_path).mend or ""
    assert "81% of the disk used" in text and "python3 run.py clean" in mend


def test_what_the_parts_of_a_home_take_is_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert "nothing is kept" in doctor.check_home(home).text
    open_home(home)
    (home / "pawl.db").write_bytes(bytes(2_000_000))
    (home / "runs" / "r").mkdir()
    (home / "runs" / "r" / "rows.jsonl").write_bytes(bytes(5_500_000))
    (home / "before-restore-x").mkdir()
    (home / "before-restore-x" / "pawl.db").write_bytes(bytes(1_000_000))
    assert doctor.check_home(home).text == (
        f"8.5 MB at {home}: database 2.0 MB, runs 5.5 MB, backups 1.0 MB"
    )


def test_a_taken_port_is_told_unless_it_is_our_own_server(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = doctor.check_port(home.path, range(port, port + 1))
        assert (found.state, found.text) == ("broken", f"{port} is taken")
        lock = HomeLock(home)
        remember(home, f"http://127.0.0.1:{port}")
        found = doctor.check_port(home.path, range(port, port + 1))
        assert found.state == "ok" and f"127.0.0.1:{port}" in found.text
        lock.release()
    assert doctor.check_port(home.path, range(port, port + 1)).text == f"127.0.0.1:{port} is free"


def remember(home: Home, url: str) -> None:
    home.server_json.write_text(json.dumps({"pid": 1, "url": url, "started": "now"}))
